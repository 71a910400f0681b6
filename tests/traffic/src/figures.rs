//! What a measurement has come to, and whether that is well. Nothing here looks at a kernel or a clock.

use crate::flow::Name;
use crate::stream::{Sending, Stream};
use crate::world::Link;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

/// What a stream came to while something was done beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// How long it was done.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
    /// How often.
    pub changes: u64,
    /// How often the kernel took what was sent.
    pub sent: u64,
    /// How often it did not.
    pub errors: u64,
    /// Packets by the links that the stream may use, with what the kernel says there on its own.
    pub own: u64,
    /// Packets that these links dropped, as they do where the machine is too busy.
    pub dropped: u64,
    /// Packets of the stream by each other link.
    pub leaked: BTreeMap<Link, u64>,
}

impl Slice {
    /// Packets by other links than the stream's.
    pub fn leaked(&self) -> u64 {
        self.leaked.values().sum()
    }

    /// Packets by other links for a thousand changes.
    pub fn leaked_per_thousand(&self) -> f64 {
        1000.0 * self.leaked() as f64 / self.changes.max(1) as f64
    }
}

impl AddAssign for Slice {
    fn add_assign(&mut self, more: Self) {
        self.took += more.took;
        self.changes += more.changes;
        self.sent += more.sent;
        self.errors += more.errors;
        self.own += more.own;
        self.dropped += more.dropped;
        for (link, leaked) in more.leaked {
            *self.leaked.entry(link).or_default() += leaked;
        }
    }
}

/// One flow beside one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// What happened.
    pub flow: Name,
    /// What was sent.
    #[serde(flatten)]
    pub stream: Stream,
    /// While the element was at work.
    #[serde(flatten)]
    pub element: Slice,
    /// While the same was done by the kernel's own best means, where it is no zero.
    pub kernels_best: Option<Slice>,
    /// The first error of sending.
    pub error: Option<String>,
    /// Why the flow ended early.
    pub failure: Option<String>,
    /// The link that the stream had to leave by in the end.
    pub home: Link,
    /// The link by which it did.
    pub after: Option<Link>,
}

impl Cell {
    /// All that is not as it should be, in words.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let Slice {
            changes,
            errors,
            own,
            ..
        } = self.element;
        let errors = errors + self.kernels_best.as_ref().map_or(0, |best| best.errors);
        if let Some(failure) = &self.failure {
            faults.push(format!("ended early: {failure}"));
        }
        for (link, leaked) in self
            .element
            .leaked
            .iter()
            .filter(|(_, leaked)| **leaked > 0)
        {
            // There the figure is held against the kernel's own, by whoever reads it.
            if !self.flow.has_a_gap() && self.kernels_best.is_none() {
                faults.push(format!(
                    "{} left by {link}",
                    count(*leaked, "packet", "packets")
                ));
            }
        }
        if errors > 0 {
            let first = self.error.as_deref().unwrap_or("unknown");
            let failed = count(errors, "send", "sends");
            faults.push(format!("{failed} failed, the first with: {first}"));
        }
        match self.after {
            Some(link) if link == self.home => {}
            Some(link) => faults.push(format!("stuck on {link}, home is {}", self.home)),
            None => faults.push("nothing comes out any more".to_owned()),
        }
        if self.lost() > 0 {
            let lost = count(self.lost(), "datagram", "datagrams");
            faults.push(format!("{lost} came out nowhere"));
        }
        if changes == 0 {
            faults.push("no change was made".to_owned());
        }
        if own == 0 {
            faults.push("nothing was counted".to_owned());
        }
        faults
    }

    /// Datagrams that the kernel has taken and that came out nowhere. Segments are sent again.
    fn lost(&self) -> u64 {
        if self.stream.sending == Sending::Tcp {
            return 0;
        }
        let mut all = self.element.clone();
        all += self.kernels_best.clone().unwrap_or_default();
        all.sent
            .saturating_sub(all.own + all.dropped + all.leaked())
    }

    /// Whether this is a control that shows no leak: then a zero elsewhere says nothing.
    pub fn is_blind(&self) -> bool {
        self.flow == Name::Control && self.element.leaked() == 0
    }
}

/// All measurements of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Each flow beside each stream, flow by flow.
    pub cells: Vec<Cell>,
}

/// What a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Well,
    /// Something is.
    NotWell,
    /// The meter does not see what must leak, so it has nothing to say.
    Void,
}

impl Figures {
    /// What they say together.
    pub fn verdict(&self) -> Verdict {
        let controlled = self.cells.iter().any(|cell| cell.flow == Name::Control);
        if !controlled || self.cells.iter().any(Cell::is_blind) {
            Verdict::Void
        } else if self.cells.iter().any(|cell| !cell.faults().is_empty()) {
            Verdict::NotWell
        } else {
            Verdict::Well
        }
    }
}

/// A number of things.
pub fn count(number: u64, one: &str, many: &str) -> String {
    let what = if number == 1 { one } else { many };
    format!("{} {what}", thousands(number))
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{},{:03}", thousands(number / 1000), number % 1000)
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nsm_netlink::Family;

    /// A measurement in which all is well but for so many packets.
    pub(crate) fn cell(flow: Name, stream: Stream, leaked: u64) -> Cell {
        let element = Slice {
            changes: 10,
            sent: 100,
            own: 100 - leaked,
            leaked: [(Link::Eth0, leaked)].into(),
            ..Slice::default()
        };
        let best = flow.deletes_route_in_use(stream.family);
        Cell {
            flow,
            stream,
            element,
            kernels_best: best.then(Slice::default),
            error: None,
            failure: None,
            home: Link::Nsm0,
            after: Some(Link::Nsm0),
        }
    }

    fn udp(family: Family) -> Stream {
        Stream {
            family,
            sending: Sending::Udp,
        }
    }

    fn verdict(cells: &[Cell]) -> Verdict {
        Figures {
            cells: cells.to_vec(),
        }
        .verdict()
    }

    #[test]
    fn one_packet_by_another_link_is_a_fault() {
        let mut cell = cell(Name::Refresh, udp(Family::V6), 0);
        assert_eq!(cell.faults(), [""; 0]);

        cell.element.leaked.insert(Link::Eth0, 1);

        assert_eq!(cell.faults(), ["1 packet left by eth0"]);
    }

    #[test]
    fn where_ipv6_deletes_a_route_in_use_the_leak_is_a_figure_and_no_fault() {
        let figure = cell(Name::NextHop, udp(Family::V6), 3);
        let fault = cell(Name::NextHop, udp(Family::V4), 3);

        assert_eq!(figure.faults(), [""; 0]);
        assert_eq!(fault.faults(), ["3 packets left by eth0"]);
    }

    #[test]
    fn everything_else_that_is_wrong_is_a_fault() {
        let wrong: [fn(&mut Cell); 7] = [
            |it| it.failure = Some("refused".to_owned()),
            |it| it.element.errors = 1,
            |it| it.element.sent = 101,
            |it| it.element.changes = 0,
            |it| (it.element.sent, it.element.own) = (0, 0),
            |it| it.after = Some(Link::Eth0),
            |it| it.after = None,
        ];
        for (index, spoil) in wrong.into_iter().enumerate() {
            let mut cell = cell(Name::NextHop, udp(Family::V6), 0);
            spoil(&mut cell);
            assert_eq!(cell.faults().len(), 1, "{index}");
        }
    }

    #[test]
    fn without_a_control_that_leaks_there_is_no_verdict() {
        let v4 = udp(Family::V4);
        let (sees, blind) = (cell(Name::Control, v4, 9), cell(Name::Control, v4, 0));
        let (well, leaky) = (cell(Name::Refresh, v4, 0), cell(Name::Refresh, v4, 1));

        assert_eq!(verdict(std::slice::from_ref(&well)), Verdict::Void);
        assert_eq!(verdict(&[sees.clone(), blind, well.clone()]), Verdict::Void);
        assert_eq!(verdict(&[sees.clone(), well]), Verdict::Well);
        assert_eq!(verdict(&[sees, leaky]), Verdict::NotWell);
    }
}
