//! Who is written in what.

/// In which language a program is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    Rust,
}

impl Language {
    const ALL: [Self; 2] = [Self::Go, Self::Rust];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Rust => "rust",
        }
    }
}

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) client: Language,
    pub(super) forwarder: Language,
    pub(super) endpoint: Language,
}

impl Cell {
    /// All of them.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for client in Language::ALL {
            for forwarder in Language::ALL {
                for endpoint in Language::ALL {
                    all.push(Self {
                        client,
                        forwarder,
                        endpoint,
                    });
                }
            }
        }
        all
    }

    pub(super) fn name(self) -> String {
        let [client, forwarder, endpoint] = self.languages().map(Language::name);
        format!("{client}_client_{forwarder}_forwarder_{endpoint}_endpoint")
    }

    pub(super) fn languages(self) -> [Language; 3] {
        [self.client, self.forwarder, self.endpoint]
    }
}
