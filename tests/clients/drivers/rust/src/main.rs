//! Driver of redis-rs, redis-cell-rs and fred, selected by the option --client; see ../README.md.

mod checks;
mod client;
mod fred_client;
mod load;
mod options;
mod redis_async;
mod redis_cell;
mod redis_connect;
mod redis_sync;
mod repeat;

use checks::Checks;
use client::Client;
use options::Options;
use serde_json::{json, Value};

/// Writes a line to the standard output.
pub fn write(line: Value) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output");
}

#[tokio::main]
async fn main() {
    rustls::crypto::ring::default_provider().install_default().expect("the only provider");
    let options = Options::parse();
    match options.get("client") {
        Some("redis-rs") => run::<redis_async::Driver>(&options, "redis").await,
        Some("redis-rs-sync") => run::<redis_sync::Driver>(&options, "redis").await,
        Some("redis-cell-rs") => run::<redis_cell::Driver>(&options, "redis-cell-rs").await,
        Some("fred") => run::<fred_client::Driver>(&options, "fred").await,
        other => panic!("unknown client {other:?}"),
    }
    std::process::exit(0); // the libraries have threads of their own
}

/// Runs the checks with a library, which is in the package with the given name.
async fn run<C: Client>(options: &Options, package: &str) {
    let mut checks: Option<Checks<C>> = None;
    for name in options.get("check").unwrap_or_default().split(',') {
        let outcome = match name {
            "version" => Ok(json!({"detail": version(package)})),
            _ => match open(&mut checks, options).await {
                Ok(checks) => checks.run(name).await,
                Err(problem) => Err(problem),
            },
        };
        let mut line = json!({"check": name, "ok": outcome.is_ok()});
        match outcome {
            Ok(Value::Object(fields)) => line.as_object_mut().unwrap().extend(fields),
            Ok(_) => {}
            Err(problem) => line["detail"] = json!(problem),
        }
        write(line);
    }
}

/// Returns the checks with an open client.
async fn open<'a, C: Client>(checks: &'a mut Option<Checks<C>>, options: &Options) -> Result<&'a Checks<C>, String> {
    if checks.is_none() {
        *checks = Some(Checks::new(options).await.map_err(|e: C::Error| e.to_string())?);
    }
    Ok(checks.as_ref().unwrap())
}

/// Returns the version of a package from the lock file of this program.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let after = lock.split(&format!("name = \"{package}\"\nversion = \"")).nth(1).unwrap_or_default();
    after.split('"').next().unwrap_or_default()
}
