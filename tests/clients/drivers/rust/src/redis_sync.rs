//! redis-rs with its blocking API and a pool of r2d2.

use crate::client::{Client, Decision, Throttle};
use crate::options::Options;
use crate::redis_connect::{cluster, command, repeated, sentinel, single};
use r2d2::Pool;
use redis::cluster::ClusterClient;
use redis::sentinel::LockedSentinelClient;
use redis::{Cmd, ConnectionLike, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult};

#[derive(Clone)]
pub enum Driver {
    Single(Pool<redis::Client>),
    Cluster(Pool<ClusterClient>),
    Sentinel(Pool<LockedSentinelClient>),
}

fn pool<M: r2d2::ManageConnection>(client: M) -> RedisResult<Pool<M>> {
    Pool::builder().min_idle(Some(1)).build(client).map_err(unavailable)
}

fn unavailable(error: r2d2::Error) -> RedisError {
    (ErrorKind::Io, "no connection", error.to_string()).into()
}

impl Driver {
    /// Runs a blocking function with a connection of the pool.
    async fn with<T: Send + 'static>(&self, run: impl FnOnce(&mut dyn ConnectionLike) -> RedisResult<T> + Send + 'static) -> RedisResult<T> {
        let driver = self.clone();
        let work = move || match driver {
            Driver::Single(pool) => run(&mut *pool.get().map_err(unavailable)?),
            Driver::Cluster(pool) => run(&mut *pool.get().map_err(unavailable)?),
            Driver::Sentinel(pool) => run(&mut *pool.get().map_err(unavailable)?),
        };
        tokio::task::spawn_blocking(work).await.expect("the call does not panic")
    }
}

fn one<T: FromRedisValue>(command: Cmd, connection: &mut dyn ConnectionLike) -> RedisResult<T> {
    redis::from_redis_value(connection.req_command(&command)?).map_err(RedisError::from)
}

fn many(pipeline: Pipeline, connection: &mut dyn ConnectionLike) -> RedisResult<Vec<Decision>> {
    pipeline.query(connection)
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
        self.with(move |connection| one(command(&call), connection)).await
    }

    async fn pipeline(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        self.with(move |connection| many(repeated(&call, n), connection)).await
    }

    async fn transaction(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        let mut pipeline = repeated(&call, n);
        pipeline.atomic();
        self.with(move |connection| many(pipeline, connection)).await
    }
}
