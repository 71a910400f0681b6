//! The addresses that nobody has, and which of them a connection gets. Pure.

use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;

use super::prefixes::CidrGroups;
use super::ranges::Ranges;

/// The two addresses of a connection: "dst" and "src" in the mesh's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    /// The address of the endpoint's interface.
    pub(super) dst: IpAddr,
    /// The address of the client's interface.
    pub(super) src: IpAddr,
}

/// What a request brings.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// Addresses that the client has, the likeliest first.
    pub(super) src: Vec<IpAddr>,
    /// Addresses that the endpoint had for it.
    pub(super) dst: Vec<IpAddr>,
    /// Addresses that must not be assigned.
    pub(super) excluded: Ranges,
}

/// No pair is left for a client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no two free addresses in {}{}", list(.prefixes), outside(.excluded))]
pub(super) struct Exhausted {
    /// The prefixes of the group that has none.
    prefixes: Vec<IpNet>,
    /// Whether the request excludes any.
    excluded: bool,
}

/// The free addresses of all groups. Groups may overlap: an address is given once all the same.
#[derive(Debug)]
pub(super) struct Pool {
    groups: Vec<Vec<IpNet>>,
    free: Ranges,
}

impl Pool {
    pub(super) fn new(groups: &CidrGroups) -> Self {
        let mut free = Ranges::default();
        groups.prefixes().for_each(|prefix| free.insert_net(prefix));
        Self {
            groups: groups.groups().to_vec(),
            free,
        }
    }

    /// Takes a pair of each group, or none at all: the one that the connection had, where it is
    /// not excluded; else what the request brings, where it is free; else the lowest that is free,
    /// or the highest where another has what the request brings.
    ///
    /// A pair that the connection had and that is replaced is not given back here.
    pub(super) fn take(
        &mut self,
        had: Option<&[Pair]>,
        asked: &Asked,
    ) -> Result<Vec<Pair>, Exhausted> {
        let mut pairs = Vec::with_capacity(self.groups.len());
        let mut taken = Vec::new();
        for index in 0..self.groups.len() {
            let stays = had.and_then(|had| had.get(index)).filter(|pair| {
                !asked.excluded.contains(pair.src) && !asked.excluded.contains(pair.dst)
            });
            if let Some(pair) = stays {
                pairs.push(*pair);
                continue;
            }
            let Some(pair) = self.find(&self.groups[index], asked) else {
                self.give(&taken);
                return Err(Exhausted {
                    prefixes: self.groups[index].clone(),
                    excluded: !asked.excluded.is_empty(),
                });
            };
            self.free.remove(pair.src);
            self.free.remove(pair.dst);
            taken.push(pair);
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Takes pairs back.
    pub(super) fn give(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            self.free.insert(pair.src);
            self.free.insert(pair.dst);
        }
    }

    /// What nobody has.
    #[cfg(test)]
    pub(super) fn free(&self) -> &Ranges {
        &self.free
    }

    /// A free pair of a group: what the request brings, else one at an end of a prefix.
    fn find(&self, group: &[IpNet], asked: &Asked) -> Option<Pair> {
        let returned = group.iter().find_map(|prefix| {
            let src = self.brought(prefix, &asked.src, asked)?;
            let mut except = asked.excluded.clone();
            except.insert(src);
            let brought = self.brought(prefix, &asked.dst, asked);
            let dst = brought
                .filter(|dst| *dst != src)
                .or_else(|| self.free.lowest(prefix, &except))?;
            Some(Pair { dst, src })
        });
        // Others that return later have low ones: whoever is too late for his own leaves them theirs.
        let taken = |src: &IpAddr| !self.free.contains(*src) && !asked.excluded.contains(*src);
        let ours = |src: &IpAddr| group.iter().any(|prefix| prefix.contains(src));
        let is_late = asked.src.iter().any(|src| ours(src) && taken(src));
        returned.or_else(|| {
            group.iter().find_map(|prefix| {
                let end = if is_late {
                    Ranges::highest
                } else {
                    Ranges::lowest
                };
                let one = end(&self.free, prefix, &asked.excluded)?;
                let mut except = asked.excluded.clone();
                except.insert(one);
                let other = end(&self.free, prefix, &except)?;
                Some(Pair {
                    dst: one.min(other),
                    src: one.max(other),
                })
            })
        })
    }

    /// The first of some addresses that a prefix can give.
    fn brought(&self, prefix: &IpNet, addresses: &[IpAddr], asked: &Asked) -> Option<IpAddr> {
        let given = |address: &&IpAddr| {
            prefix.contains(*address)
                && self.free.contains(**address)
                && !asked.excluded.contains(**address)
        };
        addresses.iter().find(given).copied()
    }
}

fn outside(excluded: &bool) -> &'static str {
    if *excluded {
        " outside of the prefixes that the request excludes"
    } else {
        ""
    }
}

fn list(prefixes: &[IpNet]) -> String {
    let list: Vec<String> = prefixes.iter().map(IpNet::to_string).collect();
    list.join(" and ")
}
