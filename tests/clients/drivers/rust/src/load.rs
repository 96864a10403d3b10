//! Counts calls.

use crate::client::{Client, Throttle};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BEGUN: u64 = 100; // successful calls
const LONGEST_ERROR: usize = 200; // characters

struct Counts {
    succeeded: u64,
    failed: u64,
    errors: BTreeMap<String, u64>,
    last: Instant,
    gap: Duration,
}

/// The calls of all callers.
#[derive(Clone)]
pub struct Load(Arc<Mutex<Counts>>);

impl Load {
    pub fn new() -> Load {
        Load(Arc::new(Mutex::new(Counts { succeeded: 0, failed: 0, errors: BTreeMap::new(), last: Instant::now(), gap: Duration::ZERO })))
    }

    /// Makes calls until the file exists.
    pub async fn run<C: Client>(&self, client: &C, call: &Throttle, until: &str) {
        while !std::path::Path::new(until).exists() {
            self.note(client.throttle(call.clone()).await.map_err(|e| e.to_string()));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn note<T>(&self, result: Result<T, String>) {
        let mut counts = self.0.lock().unwrap();
        if let Err(text) = result {
            counts.failed += 1;
            *counts.errors.entry(text.chars().take(LONGEST_ERROR).collect()).or_default() += 1;
            return;
        }
        let now = Instant::now();
        counts.gap = counts.gap.max(now - counts.last);
        counts.last = now;
        counts.succeeded += 1;
        if counts.succeeded == BEGUN {
            crate::write(json!({"check": "load", "event": "begun"}));
        }
    }

    pub fn fields(&self) -> Value {
        let counts = self.0.lock().unwrap();
        let silent = counts.last.elapsed();
        json!({
            "calls": counts.succeeded + counts.failed, "failed": counts.failed, "errors": counts.errors,
            "gap_ms": milliseconds(counts.gap.max(silent)), "last_ms": milliseconds(silent),
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}
