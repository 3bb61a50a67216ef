//! The Rust clients of the matrix: `ottla-client --client NAME` hosts one client and speaks ../CONTROL.md on its standard input and output.

mod control;
mod failure;
mod kafka_errors;
mod options;
mod requests;
mod wire;
mod with_rdkafka;
mod with_rskafka;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--client", "rdkafka"] => control::serve(with_rdkafka::RdKafka::default()),
        ["--client", "rskafka"] => control::serve(with_rskafka::RsKafka::default()),
        _ => {
            eprintln!("usage: ottla-client --client rdkafka|rskafka");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the control protocol's pipes: {error}");
            ExitCode::FAILURE
        }
    }
}
