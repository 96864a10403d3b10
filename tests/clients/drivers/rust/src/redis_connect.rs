//! Opens clients of redis-rs.

use crate::client::Throttle;
use crate::options::Options;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, Cmd, ConnectionAddr, Pipeline, ProtocolVersion, RedisResult, TlsCertificates, TlsMode};
use std::time::Duration;

/// The timeout of a reply. The default of 500 ms can be shorter than an election.
pub const RESPONSE: Duration = Duration::from_secs(2);

pub fn command(call: &Throttle) -> Cmd {
    let mut command = redis::cmd("CL.THROTTLE");
    command.arg(&call.args());
    command
}

/// Returns a pipeline with a call n times.
pub fn repeated(call: &Throttle, n: usize) -> Pipeline {
    let mut pipeline = redis::pipe();
    for _ in 0..n {
        pipeline.add_command(command(call));
    }
    pipeline
}

/// Returns the URLs of all addresses.
fn urls(options: &Options) -> Vec<String> {
    let scheme = if options.get("tls-ca").is_some() { "rediss" } else { "redis" };
    let login = match (options.get("user"), options.get("password")) {
        (user, Some(password)) => format!("{}:{}@", encoded(user.unwrap_or_default()), encoded(password)),
        _ => String::new(),
    };
    let protocol = match options.resp3() {
        Some(true) => "?protocol=resp3",
        Some(false) => "?protocol=resp2",
        None => "",
    };
    options.addresses().iter().map(|(host, port)| format!("{scheme}://{login}{host}:{port}/{protocol}")).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn certificates(options: &Options) -> Option<TlsCertificates> {
    options.ca().map(|ca| TlsCertificates { client_tls: None, root_cert: Some(ca) })
}

/// Opens a client of the first address.
pub fn single(options: &Options) -> RedisResult<Client> {
    let url = urls(options).swap_remove(0);
    match certificates(options) {
        Some(certificates) => Client::build_with_tls(url, certificates),
        None => Client::open(url),
    }
}

/// Opens a connection to the first address that reconnects. Its timeout is longer than an election: the default of the
/// library is 500 ms.
pub async fn manager(options: &Options) -> RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(RESPONSE));
    single(options)?.get_connection_manager_with_config(config).await
}

pub fn cluster(options: &Options) -> RedisResult<ClusterClient> {
    let builder = ClusterClientBuilder::new(urls(options));
    match certificates(options) {
        Some(certificates) => builder.certs(certificates).build(),
        None => builder.build(),
    }
}

fn address(host: String, port: u16, encrypted: bool) -> ConnectionAddr {
    if encrypted {
        return ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    }
    ConnectionAddr::Tcp(host, port)
}

pub fn sentinel(options: &Options) -> RedisResult<SentinelClient> {
    let encrypted = options.get("tls-ca").is_some();
    let addresses = options.addresses().into_iter().map(|(host, port)| address(host, port, encrypted));
    let mut builder = SentinelClientBuilder::new(addresses, "mymaster", SentinelServerType::Master)?;
    if let Some(user) = options.get("user") {
        builder = builder.set_client_to_redis_username(user).set_client_to_sentinel_username(user);
    }
    if let Some(password) = options.get("password") {
        builder = builder.set_client_to_redis_password(password).set_client_to_sentinel_password(password);
    }
    if let Some(resp3) = options.resp3() {
        let version = if resp3 { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
        builder = builder.set_client_to_redis_protocol(version).set_client_to_sentinel_protocol(version);
    }
    if let Some(certificates) = certificates(options) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure).set_client_to_redis_certificates(certificates.clone());
        builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure).set_client_to_sentinel_certificates(certificates);
    }
    builder.build()
}
