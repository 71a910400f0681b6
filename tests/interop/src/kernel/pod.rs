//! A pod: a network namespace with an interface of its own and those of connections.

use super::Error;
use super::connection::Connection;
use super::picture::{KERNEL, Picture};
use nsm_netlink::{
    DuplicateDetection, Event, Kernel, LinkState, Monitor, Namespace, Netns, Object, VethEnd,
};
use serde::Deserialize;
use std::fs;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{self, Command};

/// A pod, and what stands in it that is not the element's.
#[derive(Debug)]
pub(crate) struct Pod {
    netns: Netns,
    /// Where the other ends of its interfaces are.
    far: Netns,
    others: Picture,
}

/// A packet for which the kernel is asked the way.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) proto: Option<u8>,
    pub(crate) sport: Option<u16>,
    pub(crate) dport: Option<u16>,
}

/// The way out that the kernel takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Way {
    pub(crate) dev: String,
    #[serde(rename = "gateway")]
    pub(crate) via: Option<IpAddr>,
}

impl Pod {
    /// A pod that has a network of its own by `eth0`.
    pub(crate) fn new() -> Result<Self, Error> {
        let netns = Netns::create()?;
        let far = Netns::create()?;
        // An address works at once then.
        netns.enter(|| fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0"))??;
        let mut pod = Self {
            netns,
            far,
            others: Picture::default(),
        };
        pod.add_interface("eth0", &["192.168.0.2/24", "fd01::2/64"])?;
        pod.run("ip route add default via 192.168.0.1; ip route add default via fd01::1 dev eth0")?;
        pod.know_others()?;
        Ok(pod)
    }

    /// A path that leads to it as long as it stands.
    pub(crate) fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            process::id(),
            self.netns.as_fd().as_raw_fd()
        )
    }

    /// The interface of a connection, with its addresses.
    pub(crate) fn join(&self, connection: &Connection) -> Result<(), Error> {
        let addresses = connection.addresses();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        self.add_interface(&connection.interface, &addresses)
    }

    fn add_interface(&self, name: &str, addresses: &[&str]) -> Result<(), Error> {
        let end = VethEnd::named(name);
        let mut kernel = self.netns.open()?;
        let mut far = self.far.open()?;
        kernel.add_veth(&end, &end, &self.far)?;
        let index = far.index_of(name)?;
        far.set_link(index, LinkState::Up)?;
        let index = kernel.index_of(name)?;
        kernel.set_link(index, LinkState::Up)?;
        for address in addresses {
            kernel.add_address(index, address.parse()?, DuplicateDetection::Skip)?;
        }
        Ok(())
    }

    /// The interface of a connection goes, and with it what the kernel holds by it.
    pub(crate) fn part(&self, connection: &Connection) -> Result<(), Error> {
        self.run(&format!("ip link delete {}", connection.interface))
    }

    /// Runs shell commands in it.
    pub(crate) fn run(&self, script: &str) -> Result<(), Error> {
        let mut shell = Command::new("sh");
        // A child begins where the thread is that starts it.
        let done = self
            .netns
            .enter(|| shell.args(["-ec", script]).output())??;
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("{script}: {}", String::from_utf8_lossy(&done.stderr)).into()),
        }
    }

    /// What stands now belongs to others.
    pub(crate) fn know_others(&mut self) -> Result<(), Error> {
        self.others = self.picture()?;
        Ok(())
    }

    /// Shell commands of somebody else.
    pub(crate) fn others_run(&mut self, script: &str) -> Result<(), Error> {
        let before = self.picture()?;
        self.run(script)?;
        self.others.learn(&before, &self.picture()?);
        Ok(())
    }

    /// All that stands.
    pub(crate) fn picture(&self) -> Result<Picture, Error> {
        Picture::take(&self.netns)
    }

    /// What stands of the element.
    pub(crate) fn installed(&self) -> Result<Picture, Error> {
        Ok(self.picture()?.without(&self.others))
    }

    /// What others have lost.
    pub(crate) fn lost(&self) -> Result<Picture, Error> {
        Ok(self.others.without(&self.picture()?))
    }

    /// The way of a packet; none where the kernel refuses it.
    pub(crate) fn way(&self, packet: &Packet) -> Result<Option<Way>, Error> {
        let mut ip = Command::new("ip");
        ip.args(["-json", "route", "get"]).args(packet.words());
        let done = self.netns.enter(|| ip.output())??;
        if !done.status.success() {
            return Ok(None);
        }
        Ok(serde_json::from_slice::<Vec<Way>>(&done.stdout)?.pop())
    }

    /// Hears of what comes and goes from now on.
    pub(crate) fn listen(&self) -> Result<Heard, Error> {
        Ok(Heard(Monitor::new(&self.netns)?))
    }

    /// The kernel of it.
    pub(crate) fn kernel(&self) -> Result<impl Kernel + use<>, Error> {
        Ok(self.netns.open()?)
    }
}

/// What comes and goes in a pod, but for what the kernel does by itself.
#[derive(Debug)]
pub(crate) struct Heard(Monitor);

impl Heard {
    /// Since the last time.
    pub(crate) fn events(&mut self) -> Result<Vec<Event>, Error> {
        let mut events = self.0.drain()?;
        events.retain(|event| match &event.object {
            Object::Rule(_) => true,
            Object::Route(route) => route.protocol != KERNEL,
        });
        Ok(events)
    }
}

impl Packet {
    fn words(&self) -> Vec<String> {
        let mut words = vec![self.to.to_string(), "from".into(), self.from.to_string()];
        let fields = [
            ("ipproto", self.proto.map(u16::from)),
            ("sport", self.sport),
            ("dport", self.dport),
        ];
        for (name, value) in fields {
            words.extend(value.into_iter().flat_map(|v| [name.into(), v.to_string()]));
        }
        words
    }
}
