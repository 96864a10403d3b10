//! fred with a reconnect policy.

use crate::client::{Client, Decision, Throttle};
use crate::options::Options;
use fred::prelude::*;
use fred::types::config::{Config, ServerConfig, TlsConnector};
use fred::types::{ClusterHash, CustomCommand, RespVersion};
use rustls::pki_types::{pem::PemObject, CertificateDer};
use std::sync::Arc;

#[derive(Clone)]
pub struct Driver(fred::clients::Client);

const COMMAND: &str = "CL.THROTTLE";

fn throttle() -> CustomCommand {
    CustomCommand::new_static(COMMAND, ClusterHash::FirstKey, false)
}

fn config(options: &Options) -> Config {
    let (user, password) = (options.get("user").map(String::from), options.get("password").map(String::from));
    Config {
        username: user.clone(),
        password: password.clone(),
        server: server(options, user, password),
        version: if options.resp3() == Some(true) { RespVersion::RESP3 } else { RespVersion::RESP2 },
        tls: options.ca().map(|ca| connector(&ca).into()),
        ..Config::default()
    }
}

fn server(options: &Options, user: Option<String>, password: Option<String>) -> ServerConfig {
    let mut addresses = options.addresses();
    match options.mode() {
        "cluster" => ServerConfig::new_clustered(addresses),
        "sentinel" => ServerConfig::Sentinel {
            hosts: addresses.into_iter().map(fred::types::config::Server::from).collect(),
            service_name: "mymaster".to_string(),
            username: user,
            password,
        },
        _ => {
            let (host, port) = addresses.swap_remove(0);
            ServerConfig::new_centralized(host, port)
        }
    }
}

fn connector(ca: &[u8]) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca).expect("a certificate")).expect("the certificate of a CA");
    rustls::ClientConfig::builder().with_root_certificates(Arc::new(roots)).with_no_client_auth().into()
}

impl Client for Driver {
    type Error = Error;

    async fn open(options: &Options) -> Result<Self, Error> {
        let mut builder = Builder::from_config(config(options));
        builder.set_policy(ReconnectPolicy::new_exponential(0, 20, 500, 2));
        let client = builder.build()?;
        client.init().await?;
        Ok(Driver(client))
    }

    async fn throttle(&self, call: Throttle) -> Result<Decision, Error> {
        self.0.custom(throttle(), call.args().to_vec()).await
    }

    async fn pipeline(&self, call: Throttle, n: usize) -> Result<Vec<Decision>, Error> {
        let pipeline = self.0.pipeline();
        for _ in 0..n {
            let _: () = pipeline.custom(throttle(), call.args().to_vec()).await?;
        }
        pipeline.all().await
    }

    async fn transaction(&self, call: Throttle, n: usize) -> Result<Vec<Decision>, Error> {
        let transaction = self.0.multi();
        for _ in 0..n {
            let _: () = transaction.custom(throttle(), call.args().to_vec()).await?;
        }
        transaction.exec(true).await
    }
}
