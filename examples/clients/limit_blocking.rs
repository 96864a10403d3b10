//! Limits the users whose names are read from standard input. Needs these dependencies:
//!
//!     r2d2 = "0.8"
//!     redis = { version = "1", features = ["cluster", "r2d2"] }
//!
//! The client gets the leader from the cluster port of the nodes. Its attempts are directed to the same node, so the program repeats
//! calls whose connection is refused or lost. A repeated call may charge twice.

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{ErrorKind, RedisError, RedisResult};
use std::time::{Duration, Instant};
use std::{env, thread};

/// The time for which a call is repeated, and the pause between two attempts.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

type Pool = r2d2::Pool<ClusterClient>;

fn unavailable(error: r2d2::Error) -> RedisError {
    (ErrorKind::Io, "no connection", error.to_string()).into()
}

fn open() -> RedisResult<Pool> {
    let nodes = env::var("THROTTLED_NODES").unwrap_or("127.0.0.1:6384".to_string());
    let mut builder = ClusterClientBuilder::new(nodes.split(',').map(|node| format!("redis://{node}")));
    if let Ok(password) = env::var("THROTTLED_PASSWORD") {
        builder = builder.password(password);
    }
    // A pool of r2d2 replaces a connection that has failed. The new connection reads the topology.
    r2d2::Pool::builder().min_idle(Some(1)).connection_timeout(Duration::from_secs(3)).build(builder.build()?).map_err(unavailable)
}

fn throttle(pool: &Pool, key: &str) -> RedisResult<[i64; 5]> {
    let mut connection = pool.get().map_err(unavailable)?;
    // Bursts of up to 16, and 30 calls an hour.
    redis::cmd("CL.THROTTLE").arg(key).arg(15).arg(30).arg(3600).query(&mut *connection)
}

/// Makes a call, and repeats it while its connection fails.
fn repeat<T>(call: impl Fn() -> RedisResult<T>) -> RedisResult<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match call() {
            Err(error) if error.is_io_error() && Instant::now() < deadline => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn main() -> RedisResult<()> {
    let pool = open()?;
    for user in std::io::stdin().lines() {
        let key = format!("user:{}", user?);
        match repeat(|| throttle(&pool, &key)) {
            Err(error) => eprintln!("{error}"), // the program chooses whether the request is admitted
            Ok([1, _, _, retry_after, _]) => println!("refused; retry after {retry_after} s"),
            Ok([_, _, remaining, _, _]) => println!("admitted; {remaining} remain"),
        }
    }
    Ok(())
}
