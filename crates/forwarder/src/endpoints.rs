//! Where the endpoints of each network service are, as a setting.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nsm_grpc::{Address, AddressError};
use nsm_program::settings::{List, ListError};
use thiserror::Error;

/// The endpoints of each network service: `SERVICE=URL,...`. A service that comes again has one
/// endpoint more. The empty text has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints(BTreeMap<String, Vec<Address>>);

/// Why a text lists no endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointsError {
    /// An item is no endpoint of a service.
    #[error(transparent)]
    Item(#[from] ListError<EndpointError>),
    /// One service, one address, two times.
    #[error("{0} comes twice")]
    Repeated(Endpoint),
}

/// One endpoint of a service: `SERVICE=URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    service: String,
    address: Address,
}

/// Why a text is no endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a service, an equals sign and an address.
    #[error("it is no service=URL")]
    Pair,
    /// The address cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl Endpoints {
    /// The addresses of each service, in the order in which they were listed.
    pub fn into_inner(self) -> BTreeMap<String, Vec<Address>> {
        self.0
    }

    /// The services.
    pub fn services(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (service, address) = text.split_once('=').ok_or(EndpointError::Pair)?;
        let (service, address) = (service.trim(), address.trim());
        if service.is_empty() {
            return Err(EndpointError::Pair);
        }
        Ok(Self {
            service: service.to_owned(),
            address: address.parse()?,
        })
    }
}

impl FromStr for Endpoints {
    type Err = EndpointsError;

    fn from_str(text: &str) -> Result<Self, EndpointsError> {
        let list: List<Endpoint> = text.parse()?;
        let mut services = BTreeMap::<_, Vec<_>>::new();
        for endpoint in list.into_inner() {
            let known = services.entry(endpoint.service.clone()).or_default();
            if known.contains(&endpoint.address) {
                return Err(EndpointsError::Repeated(endpoint));
            }
            known.push(endpoint.address);
        }
        Ok(Self(services))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.service, self.address)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.0.iter();
        let endpoints = services.flat_map(|(service, addresses)| {
            let of_service = move |address: &Address| Endpoint {
                service: service.clone(),
                address: address.clone(),
            };
            addresses.iter().map(of_service)
        });
        endpoints.collect::<List<_>>().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_what_it_displays_and_a_service_may_come_again() {
        let text = "a=unix:///1,a=unix:///2,b@c=tcp://10.0.0.1:5001";
        let endpoints: Endpoints = text.parse().unwrap();

        assert_eq!(endpoints.to_string(), text);
        let mixed: Endpoints = "a = unix:///1, b@c=tcp://10.0.0.1:5001 ,a=unix:///2"
            .parse()
            .unwrap();
        assert_eq!(mixed, endpoints);
        assert_eq!("".parse(), Ok(Endpoints::default()));
    }

    #[test]
    fn nothing_else_is_a_list_of_endpoints() {
        for text in [
            "a",
            "=unix:///1",
            "a=b",
            "a=unix:///1,",
            "a=unix:///1,a=unix:///1",
        ] {
            assert!(text.parse::<Endpoints>().is_err(), "{text:?}");
        }
    }
}
