//! Which NATS servers may be connected to.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use flint_model::{HostPattern, NatsServer, is_public_address};
use tokio::net::lookup_host;

use crate::NatsError;

/// The operator's policy.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Permitted hosts. If empty, no connections are made.
    pub hosts: Vec<HostPattern>,
    /// Also permit addresses of this machine and private networks.
    pub private: bool,
}

impl Reach {
    /// Whether a server is permitted by its name.
    pub fn check(&self, server: &NatsServer) -> Result<(), NatsError> {
        if self.hosts.is_empty() {
            return Err(NatsError::Off);
        }
        let allows = |host: &HostPattern| host.allows_server(&server.host, server.port, NatsServer::PORT);
        match self.hosts.iter().any(allows) {
            true => Ok(()),
            false => Err(NatsError::NotAllowed(server.to_string())),
        }
    }

    /// The permitted addresses of a server.
    pub(crate) async fn resolve(&self, server: &NatsServer) -> Result<Vec<SocketAddr>, NatsError> {
        self.check(server)?;
        let no_address = || NatsError::NoAddress(server.host.clone());
        let found: Vec<_> = match server.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, server.port)],
            Err(_) => {
                lookup_host((server.host.as_str(), server.port)).await.map_err(|_| no_address())?.collect()
            }
        };
        if found.is_empty() {
            return Err(no_address());
        }
        let allowed: Vec<_> = found.into_iter().filter(|address| self.may_reach(*address)).collect();
        if allowed.is_empty() { Err(NatsError::NotPublic(server.to_string())) } else { Ok(allowed) }
    }

    fn may_reach(&self, address: SocketAddr) -> bool {
        self.private || (is_public_address(address.ip()) && !is_own(address))
    }
}

/// Whether an address is this machine's, in which case the kernel chooses the same one as source. No packet
/// is sent.
fn is_own(address: SocketAddr) -> bool {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let answered_from =
        UdpSocket::bind(any).and_then(|socket| socket.connect(address).and_then(|()| socket.local_addr()));
    answered_from.is_ok_and(|own| own.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(hosts: &[&str], private: bool) -> Reach {
        Reach { hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(), private }
    }

    async fn refused(reach: &Reach, server: &str) -> String {
        reach.resolve(&server.parse().unwrap()).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn only_hosts_that_are_allowed_are_connected_to() {
        assert!(refused(&Reach::default(), "1.1.1.1").await.contains("makes no connections"));
        let some = reach(&["nats.example.com", "1.1.1.1:5222"], false);
        assert!(
            refused(&some, "other.example.com")
                .await
                .contains("nats://other.example.com:4222 are not allowed")
        );
        assert!(refused(&some, "1.1.1.1").await.contains("not allowed"));
        assert_eq!(
            some.resolve(&"1.1.1.1:5222".parse().unwrap()).await.unwrap(),
            ["1.1.1.1:5222".parse().unwrap()]
        );
    }

    #[tokio::test]
    async fn addresses_of_this_machine_and_its_neighbours_are_a_matter_of_their_own() {
        let any = reach(&["*"], false);
        for host in ["localhost", "127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "0.0.0.0"] {
            let error = refused(&any, host).await;
            assert!(error.contains("feeds.nats_allow_private"), "{host}: {error}");
        }
        let private = reach(&["*"], true);
        for host in ["localhost", "127.0.0.1", "10.0.0.1"] {
            assert!(private.resolve(&host.parse().unwrap()).await.is_ok(), "{host}");
        }
    }

    #[test]
    fn an_address_of_ones_own_is_recognised() {
        assert!(is_own("127.0.0.1:4222".parse().unwrap()) && is_own("[::1]:4222".parse().unwrap()));
        assert!(!is_own("127.0.0.2:4222".parse().unwrap()) || !is_own("192.0.2.1:4222".parse().unwrap()));
    }
}
