//! What can go wrong in an operation, as the control protocol tells it.

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Fault {
    /// Kafka's name of the error, or `CLIENT:` and the client's own.
    pub code: String,
    pub message: String,
    /// None where the client does not say; so are the other two.
    pub retriable: Option<bool>,
    pub fatal: Option<bool>,
    pub abortable: Option<bool>,
}

impl Fault {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retriable: None, fatal: None, abortable: None }
    }

    pub fn timeout() -> Self {
        Self::new("CLIENT:TIMEOUT", "no answer within the request's time")
    }
}

#[derive(Debug)]
pub enum Failure {
    /// The broker or the client refused.
    Fault(Fault),
    /// The client's public API cannot do it; a sentence.
    Unsupported(String),
}

impl Failure {
    pub fn unsupported<T>(sentence: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unsupported(sentence.into()))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A request that does not say what its operation needs is the runner's mistake.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Fault(Fault::new("CLIENT:BAD_REQUEST", error.to_string()))
    }
}
