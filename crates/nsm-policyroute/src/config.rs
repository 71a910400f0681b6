use crate::policy::Limits;
use nsm_netlink::Owner;
use std::fmt;
use std::time::Duration;

/// The settings of the middleware.
///
/// There is no default owner: two elements that work in one namespace need numbers of their own.
///
/// ```
/// use nsm_netlink::Owner;
/// use nsm_policyroute::Config;
///
/// let owner = Owner {
///     protocol: 78.try_into()?,
///     tables: "20000-24999".parse()?,
/// };
/// let config = Config { fail_closed: true, ..Config::new(owner) };
/// assert_eq!(config.priorities.to_string(), "30000-32321");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The mark of our rules and routes and the tables that we hand out.
    pub owner: Owner,
    /// Where our rules stand among all rules.
    pub priorities: Band,
    /// Refuse a policy's traffic while its interface is gone, instead of letting it fall through
    /// to the main table.
    pub fail_closed: bool,
    /// Refuse policies whose `from` lies outside the connection's own source addresses.
    pub strict: bool,
    /// How long a rule that nobody claims is left standing once it is dead or was named by a
    /// close.
    pub grace: Duration,
    /// The most policies that one connection may have.
    pub max_policies: usize,
    /// The most routes that the policies of one connection may have in sum.
    pub max_routes: usize,
    /// The longest that one piece of work in a namespace may take, waiting for its turn included.
    /// A call with an earlier deadline ends then.
    pub timeout: Duration,
    /// Whether what others remove is put back at once, and not only at the next request.
    ///
    /// One notification socket (rtnetlink(7)) and one task for each namespace with claims; both end
    /// with the last claim. Repairs come within some 10 ms of the change, no faster than 20 in a
    /// row and 2 a second after that. A policy that somebody removes again and again waits 1 s, 2 s
    /// and so on up to 60 s between its repairs, until nobody has touched it for a minute.
    ///
    /// On the real kernel it needs a runtime with `enable_io`.
    pub watch: bool,
}

impl Config {
    /// The defaults for an owner: band 30000-32321, 15 minutes of grace, 1024 policies and 4096
    /// routes, 10 seconds, without watching.
    pub const fn new(owner: Owner) -> Self {
        Self {
            owner,
            priorities: Band::DEFAULT,
            fail_closed: false,
            strict: Limits::DEFAULT.strict,
            grace: Duration::from_secs(15 * 60),
            max_policies: Limits::DEFAULT.policies,
            max_routes: Limits::DEFAULT.routes,
            timeout: Duration::from_secs(10),
            watch: false,
        }
    }

    /// How long a table of ours may be without a rule before it is emptied. Another process of
    /// this owner that is between its routes and its rule has its rule by then.
    pub(crate) const fn settle(&self) -> Duration {
        self.timeout
    }
}

/// The band of priorities that our rules lie in: [`Band::SIZE`] numbers from a base on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    base: u32,
}

impl Band {
    /// How many priorities the function of the selector can give.
    pub const SIZE: u32 = 2322;

    /// 30000-32321: behind the kernel's `local`, before its `main`.
    pub const DEFAULT: Self = Self { base: 30000 };

    /// The band that begins at `base`, if it lies between `local` (0) and `main` (32766).
    pub const fn new(base: u32) -> Option<Self> {
        if base == 0 || base > 32766 - Self::SIZE {
            None
        } else {
            Some(Self { base })
        }
    }

    /// The lowest priority: the one of the narrowest selector.
    pub const fn base(self) -> u32 {
        self.base
    }

    /// The highest priority: the one of the widest selector.
    pub const fn top(self) -> u32 {
        self.base + Self::SIZE - 1
    }

    /// Whether a priority lies in the band.
    pub const fn contains(self, priority: u32) -> bool {
        self.base <= priority && priority <= self.top()
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.base(), self.top())
    }
}
