//! Limits the users whose names are read from standard input. Needs these dependencies:
//!
//!     redis = { version = "1", features = ["sentinel", "tokio-comp"] }
//!     tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
//!
//! The client asks the Sentinel port of the nodes for the leader. A connection of redis-rs does not reconnect, so the program asks
//! again after a failure, and repeats the call. A repeated call may charge twice.

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisResult};
use std::env;
use std::time::{Duration, Instant};

/// The time for which a call is repeated, and the pause between two attempts.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// The connection to the leader.
struct Leader {
    client: SentinelClient,
    connection: Option<MultiplexedConnection>,
}

impl Leader {
    fn new() -> RedisResult<Leader> {
        let nodes = env::var("THROTTLED_SENTINELS").unwrap_or("127.0.0.1:26380".to_string());
        let address = |node: &str| node.rsplit_once(':').map(|(host, port)| ConnectionAddr::Tcp(host.to_string(), port.parse().expect("a port")));
        let mut builder = SentinelClientBuilder::new(nodes.split(',').filter_map(address), "mymaster", SentinelServerType::Master)?;
        if let Ok(password) = env::var("THROTTLED_PASSWORD") {
            builder = builder.set_client_to_redis_password(&password).set_client_to_sentinel_password(&password);
        }
        Ok(Leader { client: builder.build()?, connection: None })
    }

    async fn throttle(&mut self, key: &str) -> RedisResult<[i64; 5]> {
        if self.connection.is_none() {
            // The default timeout of 500 ms can be shorter than an election.
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(2)));
            self.connection = Some(self.client.get_async_connection_with_config(&config).await?);
        }
        // Bursts of up to 16, and 30 calls an hour.
        redis::cmd("CL.THROTTLE").arg(key).arg(15).arg(30).arg(3600).query_async(self.connection.as_mut().unwrap()).await
    }

    /// Makes a call, and repeats it with a new connection while it fails without an error of the server.
    async fn repeat(&mut self, key: &str) -> RedisResult<[i64; 5]> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.throttle(key).await {
                Err(error) if error.code().is_none() && Instant::now() < deadline => self.connection = None,
                result => return result,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    let mut leader = Leader::new()?;
    for user in std::io::stdin().lines() {
        match leader.repeat(&format!("user:{}", user?)).await {
            Err(error) => eprintln!("{error}"), // the program chooses whether the request is admitted
            Ok([1, _, _, retry_after, _]) => println!("refused; retry after {retry_after} s"),
            Ok([_, _, remaining, _, _]) => println!("admitted; {remaining} remain"),
        }
    }
    Ok(())
}
