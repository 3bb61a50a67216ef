//! The control protocol of ../CONTROL.md: one JSON object a line, one answer for each request, in order.

use std::future::Future;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::{Failure, Fault};

const CALL_TIMEOUT_MS: u64 = 30_000;
/// Operations keep to their own time; this is what they may take on top before they count as stuck.
const GRACE: Duration = Duration::from_secs(10);

/// Background tasks are few; librdkafka has threads of its own.
const WORKERS: usize = 2;

pub trait Client {
    fn name(&self) -> &'static str;
    fn version(&self) -> String;
    /// Performs an operation of the protocol. `request` has the operation's arguments.
    fn call(&mut self, op: &str, request: Value, timeout: Duration) -> impl Future<Output = Result<Value, Failure>>;
}

#[derive(Deserialize)]
struct Envelope {
    id: Value,
    op: String,
    timeout_ms: Option<u64>,
}

/// Answers requests until the input ends; what is still open is closed with the client.
pub fn serve<C: Client>(mut client: C) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let runtime_name = concat!("rust ", env!("RUSTC_VERSION"));
    write_line(&json!({"ready": {"client": client.name(), "version": client.version(), "runtime": runtime_name}}))?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if !line.trim().is_empty() {
            write_line(&runtime.block_on(answer(&mut client, &line)))?;
        }
    }
    // Inside of the runtime, because a client may end its background tasks as it is dropped.
    runtime.block_on(async move { drop(client) });
    Ok(())
}

fn write_line(answer: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{answer}")?;
    output.flush()
}

async fn answer<C: Client>(client: &mut C, line: &str) -> Value {
    let request: Value = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => return json!({"id": null, "error": Fault::new("CLIENT:BAD_REQUEST", error.to_string())}),
    };
    let envelope = match Envelope::deserialize(&request) {
        Ok(envelope) => envelope,
        Err(error) => return json!({"id": null, "error": Fault::new("CLIENT:BAD_REQUEST", error.to_string())}),
    };
    let limit = Duration::from_millis(envelope.timeout_ms.unwrap_or(CALL_TIMEOUT_MS));
    let call = client.call(&envelope.op, request, limit);
    let outcome = tokio::time::timeout(limit + GRACE, call).await;
    let id = envelope.id;
    match outcome.unwrap_or_else(|_| Err(Fault::timeout().into())) {
        Ok(ok) => json!({"id": id, "ok": ok}),
        Err(Failure::Unsupported(sentence)) => json!({"id": id, "unsupported": sentence}),
        Err(Failure::Fault(fault)) => {
            eprintln!("{}: {} {}", envelope.op, fault.code, fault.message);
            json!({"id": id, "error": fault})
        }
    }
}
