//! Limits the users whose names are read from standard input. Needs these dependencies:
//!
//!     redis = { version = "1", features = ["cluster-async", "tokio-comp"] }
//!     tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//!
//! The client gets the leader from the cluster port of the nodes, and repeats calls while there is no leader.

use redis::cluster::ClusterClientBuilder;
use std::env;

#[tokio::main]
async fn main() -> redis::RedisResult<()> {
    let nodes = env::var("THROTTLED_NODES").unwrap_or("127.0.0.1:6384".to_string());
    let mut builder = ClusterClientBuilder::new(nodes.split(',').map(|node| format!("redis://{node}")));
    if let Ok(password) = env::var("THROTTLED_PASSWORD") {
        builder = builder.password(password);
    }
    let mut client = builder.build()?.get_async_connection().await?; // programs share clones of it
    for user in std::io::stdin().lines() {
        // Bursts of up to 16, and 30 calls an hour.
        let key = format!("user:{}", user?);
        let reply: redis::RedisResult<[i64; 5]> = redis::cmd("CL.THROTTLE").arg(key).arg(15).arg(30).arg(3600).query_async(&mut client).await;
        match reply {
            Err(error) => eprintln!("{error}"), // the program chooses whether the request is admitted
            Ok([1, _, _, retry_after, _]) => println!("refused; retry after {retry_after} s"),
            Ok([_, _, remaining, _, _]) => println!("admitted; {remaining} remain"),
        }
    }
    Ok(())
}
