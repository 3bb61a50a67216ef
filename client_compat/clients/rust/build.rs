//! Hands the program the versions of the client crates that it is built with, as cargo resolved them.

use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("cargo writes Cargo.lock before it runs a build script");
    for name in ["rdkafka", "rskafka"] {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).expect("it is a dependency");
        let (version, _) = rest.split_once('"').expect("a version is quoted");
        println!("cargo::rustc-env={}_VERSION={version}", name.to_uppercase());
    }
    println!("cargo::rustc-env=RUSTC_VERSION={}", rustc_version());
}

fn rustc_version() -> String {
    let rustc = env::var("RUSTC").expect("cargo sets it");
    let output = std::process::Command::new(rustc).arg("--version").output().expect("rustc runs");
    let said = String::from_utf8_lossy(&output.stdout);
    said.split(' ').nth(1).unwrap_or("unknown").to_owned()
}
