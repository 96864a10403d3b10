//! redis-rs with its asynchronous API: ConnectionManager, ClusterConnection, and connections that Sentinel directs to the
//! leader.

use crate::client::{Client, Decision, Throttle};
use crate::options::Options;
use crate::redis_connect::{cluster, command, manager, repeated, sentinel, RESPONSE};
use crate::repeat::{Attempts, PAUSE};
use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult};
use std::sync::Arc;
use tokio::sync::Mutex;

#[derive(Clone)]
pub enum Driver {
    Single(ConnectionManager),
    Cluster(ClusterConnection),
    Sentinel(Arc<Mutex<Leader>>),
}

/// The connection to the leader. A connection of redis-rs does not reconnect, so that the driver asks Sentinel again after
/// an error of the connection.
pub struct Leader {
    client: SentinelClient,
    connection: Option<MultiplexedConnection>,
}

impl Leader {
    /// Returns the connection. While there is no leader, it waits for one.
    async fn connection(&mut self, attempts: &mut Attempts) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE));
        loop {
            if let Some(connection) = &self.connection {
                return Ok(connection.clone());
            }
            match self.client.get_async_connection_with_config(&config).await {
                Ok(connection) => self.connection = Some(connection),
                Err(error) if is_final(&error) || !attempts.again() => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Reports whether repetitions cannot help.
fn is_final(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig)
}

/// A command or a pipeline.
enum Request {
    One(Cmd),
    Many(Pipeline),
}

impl Request {
    async fn send<T: FromRedisValue>(&self, connection: &mut impl ConnectionLike) -> RedisResult<T> {
        match self {
            Request::One(command) => command.query_async(connection).await,
            Request::Many(pipeline) => pipeline.query_async(connection).await,
        }
    }
}

/// Sends a request to the leader. A request whose connection is lost is repeated with a new connection: all callers share
/// one connection, so that its loss would fail the calls of all of them.
async fn repeat<T: FromRedisValue>(leader: &Mutex<Leader>, request: &Request) -> RedisResult<T> {
    let mut attempts = Attempts::new();
    loop {
        let mut connection = leader.lock().await.connection(&mut attempts).await?;
        let reply = request.send(&mut connection).await;
        match &reply {
            Err(error) if error.is_unrecoverable_error() => leader.lock().await.connection = None,
            _ => return reply,
        }
        if !attempts.again() {
            return reply;
        }
    }
}

impl Driver {
    async fn send<T: FromRedisValue>(&self, request: Request) -> RedisResult<T> {
        match self {
            Driver::Single(connection) => request.send(&mut connection.clone()).await,
            Driver::Cluster(connection) => request.send(&mut connection.clone()).await,
            Driver::Sentinel(leader) => repeat(leader, &request).await,
        }
    }
}

impl Client for Driver {
    type Error = RedisError;

    async fn open(options: &Options) -> RedisResult<Self> {
        Ok(match options.mode() {
            "cluster" => Driver::Cluster(cluster(options)?.get_async_connection().await?),
            "sentinel" => {
                let mut leader = Leader { client: sentinel(options)?, connection: None };
                leader.connection(&mut Attempts::new()).await?;
                Driver::Sentinel(Arc::new(Mutex::new(leader)))
            }
            _ => Driver::Single(manager(options).await?),
        })
    }

    async fn throttle(&self, call: Throttle) -> RedisResult<Decision> {
        self.send(Request::One(command(&call))).await
    }

    async fn pipeline(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        self.send(Request::Many(repeated(&call, n))).await
    }

    async fn transaction(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        let mut pipeline = repeated(&call, n);
        pipeline.atomic();
        self.send(Request::Many(pipeline)).await
    }
}
