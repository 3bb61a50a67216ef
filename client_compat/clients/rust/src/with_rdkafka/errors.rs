//! What the rdkafka crate's errors say, in the control protocol's words.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::failure::{Failure, Fault};
use crate::kafka_errors::kafka_name;

/// A broker's error has its number; librdkafka's own are negative, -1 (unknown) is both's.
pub fn code_fault(code: RDKafkaErrorCode, message: impl Into<String>) -> Fault {
    let named = kafka_name(code as i32).map(str::to_owned);
    Fault::new(named.unwrap_or_else(|| format!("CLIENT:{code:?}")), message)
}

pub fn fault(error: &KafkaError) -> Fault {
    if let KafkaError::Transaction(inner) = error {
        return Fault {
            retriable: Some(inner.is_retriable()),
            fatal: Some(inner.is_fatal()),
            abortable: Some(inner.txn_requires_abort()),
            ..code_fault(inner.code(), inner.string())
        };
    }
    match error.rdkafka_error_code() {
        Some(code) => code_fault(code, error.to_string()),
        None => Fault::new(format!("CLIENT:{}", variant(error)), error.to_string()),
    }
}

/// The name of an error that has no code: that of its kind.
fn variant(error: &KafkaError) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Fault(fault(&error))
    }
}
