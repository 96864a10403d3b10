//! redis-cell-rs, which makes the commands and reads the replies, with the ConnectionManager of redis-rs.

use crate::client::{Client, Decision, Throttle};
use crate::options::Options;
use crate::redis_connect::manager;
use redis::aio::ConnectionManager;
use redis::{RedisError, RedisResult};
use redis_cell_rs::{Cmd, Key, Policy, Verdict};
use std::time::Duration;

#[derive(Clone)]
pub struct Driver(ConnectionManager);

fn command(call: &Throttle) -> redis::Cmd {
    let max_burst = call.max_burst.parse().expect("a number");
    let policy = Policy::new(max_burst, call.count as usize, Duration::from_secs(call.period.into()), 1);
    let key = Key::from(call.key.as_str());
    Cmd::new(&key, &policy).into()
}

fn repeated(call: &Throttle, n: usize) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    for _ in 0..n {
        pipeline.add_command(command(call));
    }
    pipeline
}

/// Returns the integers of the reply.
fn decision(verdict: Verdict) -> Decision {
    match verdict {
        Verdict::Allowed(d) => vec![0, d.total as i64, d.remaining as i64, -1, d.reset_after as i64],
        Verdict::Blocked(d) => vec![1, d.total as i64, d.remaining as i64, d.retry_after as i64, d.reset_after as i64],
    }
}

impl Client for Driver {
    type Error = RedisError;

    async fn open(options: &Options) -> RedisResult<Self> {
        Ok(Driver(manager(options).await?))
    }

    async fn throttle(&self, call: Throttle) -> RedisResult<Decision> {
        command(&call).query_async(&mut self.0.clone()).await.map(decision)
    }

    async fn pipeline(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        let verdicts: Vec<Verdict> = repeated(&call, n).query_async(&mut self.0.clone()).await?;
        Ok(verdicts.into_iter().map(decision).collect())
    }

    async fn transaction(&self, call: Throttle, n: usize) -> RedisResult<Vec<Decision>> {
        let mut pipeline = repeated(&call, n);
        pipeline.atomic();
        let verdicts: Vec<Verdict> = pipeline.query_async(&mut self.0.clone()).await?;
        Ok(verdicts.into_iter().map(decision).collect())
    }
}
