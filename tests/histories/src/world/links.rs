use super::{Done, World};
use crate::small_world::{LINKS, address};
use crate::step::LinkEvent;
use nsm_netlink::{Family, KernelError, LinkState};
use policyroute_suite::Machine;

impl<M: Machine> World<M> {
    /// Something happens to a link.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn link(&mut self, link: usize, event: LinkEvent) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        let is_down =
            |at: &usize| picture.dev(LINKS[*at]).is_some() && picture.usable(LINKS[*at]).is_none();
        let link = match event {
            LinkEvent::Up => (link..link + 3)
                .map(|at| at % 3)
                .find(is_down)
                .unwrap_or(link),
            _ => link,
        };
        let name = LINKS[link];
        let index = picture.dev(name);
        let up = picture.usable(name).is_some();
        let done = match (event, index) {
            (LinkEvent::Deleted, Some(index)) => {
                self.machine.delete_link(index);
                Some(format!("ip link del {name}"))
            }
            (LinkEvent::Remade, Some(index)) => {
                self.machine.delete_link(index);
                Some(format!("ip link del {name}\n{}", self.make_link(link)))
            }
            (LinkEvent::Remade, None) => Some(self.make_link(link)),
            (LinkEvent::Down, Some(index)) if up => {
                self.machine.set_link(index, LinkState::Down);
                // The kernel takes its IPv6 addresses with it.
                self.addresses[link].remove(&Family::V6);
                Some(format!("ip link set {name} down"))
            }
            (LinkEvent::Flapped, Some(index)) if up => {
                self.machine.set_link(index, LinkState::Down);
                self.machine.set_link(index, LinkState::Up);
                self.addresses[link].remove(&Family::V6);
                Some(format!("ip link set {name} down\nip link set {name} up"))
            }
            (LinkEvent::Up, Some(index)) if !up => {
                self.machine.set_link(index, LinkState::Up);
                Some(format!("ip link set {name} up"))
            }
            _ => None,
        };
        self.look_after_legs()?;
        Ok(done)
    }

    /// Makes a link, sets it up and gives it its addresses.
    pub(super) fn make_link(&mut self, link: usize) -> String {
        let name = LINKS[link];
        let index = self.machine.add_link(name);
        self.machine.set_link(index, LinkState::Up);
        for family in Family::ALL {
            self.machine.add_address(index, address(link, family));
        }
        self.addresses[link] = Family::ALL.into();
        let addresses = Family::ALL.map(|family| self.address_words(link, family, true));
        format!(
            "ip link add {name} type veth peer name far-{name}\nip link set far-{name} up\n\
             ip link set {name} up\n{}",
            addresses.join("\n")
        )
    }

    /// An address of a link comes or goes.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn address(
        &mut self,
        link: usize,
        family: Family,
        there: bool,
    ) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        let fits = |at: &usize| {
            picture.dev(LINKS[*at]).is_some() && self.addresses[*at].contains(&family) != there
        };
        let link = (link..link + 3).map(|at| at % 3).find(fits);
        let Some((link, index)) = link.and_then(|at| Some((at, picture.dev(LINKS[at])?))) else {
            return Ok(None);
        };
        let addresses = &mut self.addresses[link];
        let changes = if there {
            addresses.insert(family)
        } else {
            addresses.remove(&family)
        };
        if !changes {
            return Ok(None);
        }
        match there {
            true => self.machine.add_address(index, address(link, family)),
            false => self.machine.remove_address(index, address(link, family)),
        }
        self.look_after_legs()?;
        Ok(Some(self.address_words(link, family, there)))
    }

    fn address_words(&self, link: usize, family: Family, there: bool) -> String {
        let (verb, nodad) = match (there, family) {
            (true, Family::V6) => ("add", " nodad"),
            (true, Family::V4) => ("add", ""),
            (false, _) => ("del", ""),
        };
        format!(
            "ip addr {verb} {} dev {}{nodad}",
            address(link, family),
            LINKS[link]
        )
    }
}
