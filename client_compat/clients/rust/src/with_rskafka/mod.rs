use crate::control::Client;
use crate::failure::Failure;
use serde_json::Value;
use std::time::Duration;
#[derive(Default)]
pub struct RsKafka;
impl Client for RsKafka {
    fn name(&self) -> &'static str {
        "rskafka"
    }
    fn version(&self) -> String {
        env!("RSKAFKA_VERSION").to_owned()
    }
    async fn call(&mut self, _op: &str, _request: Value, _timeout: Duration) -> Result<Value, Failure> {
        Failure::unsupported("soon")
    }
}
