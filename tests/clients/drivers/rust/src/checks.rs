//! The checks. A check returns additional fields of its result, or the problem.

use crate::client::{Client, Decision, Throttle};
use crate::load::Load;
use crate::options::Options;
use serde_json::{json, Value};
use std::fmt::Debug;
use std::time::{Duration, Instant};

type Outcome = Result<Value, String>;

const FIRST_DECISION: [i64; 5] = [0, 16, 15, -1, 2];
const RECONNECT: Duration = Duration::from_secs(10);

pub struct Checks<C: Client> {
    options: Options,
    client: C,
}

impl<C: Client> Checks<C> {
    pub async fn new(options: &Options) -> Result<Self, C::Error> {
        Ok(Checks { options: options.clone(), client: C::open(options).await? })
    }

    pub async fn run(&self, name: &str) -> Outcome {
        match name {
            "connect" => self.connect().await,
            "pipeline" => counts_down(self.client.pipeline(self.call(name, "999", 1, 3600), 1000).await, 1000),
            "transaction" => counts_down(self.client.transaction(self.call(name, "9", 1, 3600), 10).await, 10),
            "error" => self.error().await,
            "auth" => self.auth().await,
            "concurrent" => self.concurrent().await,
            "reconnect" => self.reconnect().await,
            "load" => self.load().await,
            _ => Err("unknown check".to_string()),
        }
    }

    fn call(&self, check: &str, max_burst: &'static str, count: u32, period: u32) -> Throttle {
        let prefix = self.options.get("key").unwrap_or_default();
        Throttle { key: format!("{prefix}:{check}"), max_burst, count, period }
    }

    async fn connect(&self) -> Outcome {
        let got = self.client.throttle(self.call("connect", "15", 30, 60)).await.map_err(text)?;
        equal(&got[..], &FIRST_DECISION[..])
    }

    async fn error(&self) -> Outcome {
        match self.client.throttle(self.call("error", "x", 1, 60)).await {
            Ok(reply) => return Err(format!("got {reply:?}, want an error")),
            Err(error) if !error.to_string().contains("max_burst") => return Err(text(error)),
            Err(_) => {}
        }
        let got = self.client.throttle(self.call("error", "15", 30, 60)).await.map_err(text)?;
        equal(got.len(), 5)
    }

    async fn auth(&self) -> Outcome {
        let attempt = async { C::open(&self.options.with_password("wrong")).await?.throttle(self.call("auth", "15", 30, 60)).await };
        match attempt.await {
            Ok(reply) => Err(format!("got {reply:?}, want an error")),
            Err(_) => Ok(json!({})),
        }
    }

    async fn concurrent(&self) -> Outcome {
        let call = self.call("concurrent", "99", 1, 3600);
        let callers: Vec<_> = (0..self.options.callers()).map(|_| tokio::spawn(admissions(self.client.clone(), call.clone()))).collect();
        let mut admitted = 0;
        for caller in callers {
            admitted += caller.await.map_err(text)?.map_err(text)?;
        }
        Ok(json!({"admitted": admitted}))
    }

    async fn reconnect(&self) -> Outcome {
        let call = self.call("reconnect", "15", 30, 60);
        self.client.throttle(call.clone()).await.map_err(text)?;
        crate::write(json!({"check": "reconnect", "event": "ready"}));
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.map_err(text)?.map_err(text)?;
        let deadline = Instant::now() + RECONNECT;
        let mut failed = 0;
        while let Err(error) = self.client.throttle(call.clone()).await {
            failed += 1;
            if Instant::now() > deadline {
                return Err(text(error));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(json!({"failed": failed}))
    }

    async fn load(&self) -> Outcome {
        let opening = crate::repeat::repeated(); // waiting for a leader in open is no repeated call
        let (load, call) = (Load::new(), self.call("load", "1000000", 1_000_000, 60));
        let until = self.options.get("until").unwrap_or_default().to_string();
        let caller = || {
            let (load, client, call, until) = (load.clone(), self.client.clone(), call.clone(), until.clone());
            tokio::spawn(async move { load.run(&client, &call, &until).await })
        };
        let mut errors = Vec::new();
        for caller in (0..self.options.callers()).map(|_| caller()).collect::<Vec<_>>() {
            errors.push(caller.await.map_err(text)?);
        }
        Ok(load.fields(errors, crate::repeat::repeated() - opening))
    }
}

/// Makes the calls of one caller, and returns the number of admitted ones.
async fn admissions<C: Client>(client: C, call: Throttle) -> Result<u32, C::Error> {
    let mut admitted = 0;
    for _ in 0..4 {
        if client.throttle(call.clone()).await?[0] == 0 {
            admitted += 1;
        }
    }
    Ok(admitted)
}

/// Checks that the remaining counts of n decisions are n-1 to 0.
fn counts_down<E: ToString>(decisions: Result<Vec<Decision>, E>, n: i64) -> Outcome {
    let remaining: Vec<i64> = decisions.map_err(text)?.iter().map(|decision| decision[2]).collect();
    equal(remaining, (0..n).rev().collect())
}

fn equal<T: PartialEq + Debug>(got: T, want: T) -> Outcome {
    if got == want {
        Ok(json!({}))
    } else {
        Err(format!("got {got:?}, want {want:?}"))
    }
}

fn text<E: ToString>(error: E) -> String {
    error.to_string()
}
