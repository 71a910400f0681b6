//! What of a call's metadata travels.

use http::{HeaderMap, HeaderName};
use thiserror::Error;
use tokio::time::{Duration, Instant};

const TIMEOUT: &str = "grpc-timeout";

/// The metadata without what belongs to one hop, or to gRPC itself.
pub(crate) fn of_the_call(mut headers: HeaderMap) -> HeaderMap {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        if is_of_the_hop(name.as_str()) {
            headers.remove(name);
        }
    }
    headers
}

fn is_of_the_hop(name: &str) -> bool {
    // Reserved for gRPC (PROTOCOL-HTTP2 of gRPC), HTTP's own (RFC 9110, 7.6.1), and the message's.
    name.starts_with("grpc-")
        || name.starts_with("proxy-")
        || matches!(
            name,
            "accept"
                | "accept-encoding"
                | "connection"
                | "content-encoding"
                | "content-length"
                | "content-type"
                | "date"
                | "expect"
                | "host"
                | "http2-settings"
                | "keep-alive"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
                | "user-agent"
                | "via"
        )
}

/// The value of `grpc-timeout` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the header grpc-timeout is malformed: at most 8 digits and one of H, M, S, m, u, n are expected"
)]
pub(crate) struct MalformedTimeout;

/// When the caller stops waiting, if it says so.
pub(crate) fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, MalformedTimeout> {
    let Some(value) = headers.get(TIMEOUT) else {
        return Ok(None);
    };
    let timeout = value
        .to_str()
        .ok()
        .and_then(parse_timeout)
        .ok_or(MalformedTimeout)?;
    Ok(Instant::now().checked_add(timeout))
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(value * 3600),
        'M' => Duration::from_secs(value * 60),
        'S' => Duration::from_secs(value),
        'm' => Duration::from_millis(value),
        'u' => Duration::from_micros(value),
        'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_belongs_to_a_hop_or_to_grpc_does_not_travel() {
        let mut headers = HeaderMap::new();
        for name in [
            "te",
            "content-type",
            "user-agent",
            "grpc-timeout",
            "grpc-encoding",
            "grpc-trace-bin",
            "proxy-authorization",
            "nsm-client-token",
            "grpctracing",
            "traceparent",
            "key-bin",
        ] {
            headers.insert(name, HeaderValue::from_static("x"));
        }

        let mut names: Vec<_> = of_the_call(headers).keys().map(|n| n.to_string()).collect();
        names.sort();

        assert_eq!(
            names,
            ["grpctracing", "key-bin", "nsm-client-token", "traceparent"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_is_a_deadline() {
        let after = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, HeaderValue::from_static(value));
            deadline(&headers).map(|deadline| deadline.map(|at| at - Instant::now()))
        };

        assert_eq!(after("1H"), Ok(Some(Duration::from_secs(3600))));
        assert_eq!(after("2M"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(after("3S"), Ok(Some(Duration::from_secs(3))));
        assert_eq!(
            after("99999999m"),
            Ok(Some(Duration::from_millis(99_999_999)))
        );
        assert_eq!(after("5u"), Ok(Some(Duration::from_micros(5))));
        assert_eq!(after("0n"), Ok(Some(Duration::ZERO)));
        assert_eq!(deadline(&HeaderMap::new()), Ok(None));
        for malformed in [
            "",
            "S",
            "1",
            "1s",
            "-1S",
            "+1S",
            "1.5S",
            "123456789S",
            "1 S",
        ] {
            assert_eq!(after(malformed), Err(MalformedTimeout), "{malformed:?}");
        }
    }
}
