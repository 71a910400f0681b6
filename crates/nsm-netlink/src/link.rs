/// A network interface of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number; one that has gone is not given again at once.
    pub index: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Whether it is set up (`IFF_UP`). A missing carrier does not count: the kernel routes on.
    pub up: bool,
}
