//! redis-rs with its blocking API and a pool of r2d2.

use crate::client::{Client, Decision, Throttle};
use crate::options::Options;
use crate::redis_connect::{cluster, command, repeated, sentinel, single};
use crate::repeat::{Attempts, PAUSE};
use r2d2::Pool;
use redis::cluster::{cluster_pipe, ClusterClient};
use redis::sentinel::LockedSentinelClient;
use redis::{Cmd, ConnectionLike, ErrorKind, Pipeline, RedisError, RedisResult};
use std::time::Duration;

#[derive(Clone)]
pub enum Driver {
    Single(Pool<redis::Client>),
    Cluster(Pool<ClusterClient>),
    Sentinel(Pool<LockedSentinelClient>),
}

/// The longest time that a call waits for a connection.
const WAIT: Duration = Duration::from_secs(3);

fn pool<M: r2d2::ManageConnection>(client: M) -> RedisResult<Pool<M>> {
    Pool::builder().min_idle(Some(1)).connection_timeout(WAIT).build(client).map_err(unavailable)
}

fn unavailable(error: r2d2::Error) -> RedisError {
    (ErrorKind::Io, "no connection", error.to_string()).into()
}

impl Driver {
    /// Runs a blocking function with a connection of the pool.
    async fn with<T: Send + 'static>(&self, run: impl Fn(&mut dyn ConnectionLike) -> RedisResult<T> + Send + 'static) -> RedisResult<T> {
        let driver = self.clone();
        let once = move || match &driver {
            Driver::Single(pool) => run(&mut *pool.get().map_err(unavailable)?),
            Driver::Cluster(pool) => repeat(|| run(&mut *pool.get().map_err(unavailable)?)),
            Driver::Sentinel(pool) => run(&mut *pool.get().map_err(unavailable)?),
        };
        tokio::task::spawn_blocking(once).await.expect("the call does not panic")
    }
}

fn one(command: &Cmd, connection: &mut dyn ConnectionLike) -> RedisResult<Decision> {
    command.query(connection)
}

fn many(pipeline: &Pipeline, connection: &mut dyn ConnectionLike) -> RedisResult<Vec<Decision>> {
    pipeline.query(connection)
}

/// Makes a call n times. Connections to a cluster have pipelines of their own.
fn in_cluster(pool: &Pool<ClusterClient>, call: &Throttle, n: usize) -> RedisResult<Vec<Decision>> {
    let mut pipeline = cluster_pipe();
    for _ in 0..n {
        pipeline.add_command(command(call));
    }
    pipeline.query(&mut *pool.get().map_err(unavailable)?)
}

/// Repeats a call for up to 5 seconds while it fails because of a connection. With a cluster, the attempts of the library are
/// directed to the same node without pauses, even if the node is down.
fn repeat<T>(call: impl Fn() -> RedisResult<T>) -> RedisResult<T> {
    let mut attempts = Attempts::new();
    loop {
        match call() {
            Err(error) if error.is_io_error() && attempts.again() => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

impl Client for Driver {
    type Error = RedisError;

    async fn open(options: &Options) -> RedisResult<Self> {
        let options = options.clone();
        let work = move || {
            Ok(match options.mode() {
                "cluster" => Driver::Cluster(pool(cluster(&options)?)?),
                "sentinel" => Driver::Sentinel(pool(LockedSentinelClient::new(sentinel(&options)?))?),
                _ => Driver::Single(pool(single(&options)?)?),
            })
        };
        tokio::task::spawn_blocking(work).await.expect("opening does not panic")
    }

    async fn throttle(&self, call: Throttle) -> RedisResult<Decision> {
        self.with(move |connection| one(&command(&call), connection)).await
    }

    async fn pipeline(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        if let Driver::Cluster(pool) = self.clone() {
            return tokio::task::spawn_blocking(move || in_cluster(&pool, &call, n)).await.expect("the call does not panic");
        }
        self.with(move |connection| many(&repeated(&call, n), connection)).await
    }

    async fn transaction(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        let mut pipeline = repeated(&call, n);
        pipeline.atomic();
        self.with(move |connection| many(&pipeline, connection)).await
    }
}
