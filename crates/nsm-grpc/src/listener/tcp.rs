use std::io;

use tokio::net::TcpListener;

/// Listens at `host:port`. An empty host means every address of the machine, of both families
/// where there are both.
pub(super) async fn bind(host_and_port: &str) -> io::Result<TcpListener> {
    let Some(port) = host_and_port.strip_prefix(':') else {
        return TcpListener::bind(host_and_port).await;
    };
    match TcpListener::bind(format!("[::]:{port}")).await {
        // A machine without IPv6.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}
