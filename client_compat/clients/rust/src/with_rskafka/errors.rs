//! What rskafka's errors say, in the control protocol's words.

use rskafka::client::error::Error;
use rskafka::client::producer;

use crate::failure::{Failure, Fault};

pub fn fault(error: &Error) -> Fault {
    match error {
        Error::ServerError { protocol_error, .. } => {
            Fault::new(kafka_case(&format!("{protocol_error:?}")), error.to_string())
        }
        _ => Fault::new(format!("CLIENT:{}", variant(&format!("{error:?}"))), error.to_string()),
    }
}

pub fn producer_fault(error: &producer::Error) -> Fault {
    match error {
        producer::Error::Client(inner) => fault(inner),
        _ => Fault::new(format!("CLIENT:{}", variant(&format!("{error:?}"))), error.to_string()),
    }
}

/// `NotLeaderOrFollower` as `NOT_LEADER_OR_FOLLOWER`: the crate has Kafka's names in Rust's case, and no numbers.
fn kafka_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}

fn variant(debug: &str) -> &str {
    debug.split([' ', '(']).next().unwrap_or_default()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Fault(fault(&error))
    }
}
