//! The called modules: one function per contract, so small that a call is nearly all instantiation; and
//! TeaVM's Java if built.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use flint_model::Contract;
use sha2::{Digest as _, Sha256};

/// A module or component in text form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) contract: Contract,
    text: &'static str,
    /// The request body, and the expected response.
    pub(super) body: &'static [u8],
    pub(super) answer: &'static [u8],
}

/// Echoes its input.
const CORE: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "flint_call") (param $at i32) (param $len i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32)) (i64.extend_i32_u (local.get $len)))))"#;

/// Reads once and writes it to its output.
const COMMAND: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 4096))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.store (i32.const 4) (i32.load (i32.const 8)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// The component of the executor's own tests: it answers `/` and waits for ever at `/pause`.
const HTTP: &str = include_str!("../../../../executor-wasm/tests/modules/http.wat");

const GREETING: &[u8] = br#"{"hello":"wasm"}"#;

pub(super) const SAMPLES: [Sample; 3] = [
    Sample { name: "core", contract: Contract::WasmCore, text: CORE, body: GREETING, answer: GREETING },
    Sample {
        name: "command",
        contract: Contract::WasiCommand,
        text: COMMAND,
        body: GREETING,
        answer: GREETING,
    },
    Sample { name: "http", contract: Contract::WasiHttp, text: HTTP, body: b"{}", answer: GREETING },
];

impl Sample {
    pub(super) fn code(&self) -> anyhow::Result<Vec<u8>> {
        Ok(wat::parse_str(self.text)?)
    }
}

/// The programs of java-faas, each with the size it is called with.
pub(super) const JAVA: [(&str, u32); 6] = [
    ("hello", 0),
    ("mandelbrot", 200),
    ("nbody", 10_000),
    ("pidigits", 100),
    ("simple", 200),
    ("spectralnorm", 100),
];

/// The output folder of `functions/java-faas/build.sh`, searched from here upwards.
pub(super) fn java_folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors()
        .map(|folder| folder.join("functions/java-faas"))
        .find(|folder| folder.join("build").is_dir())
}

/// Verifies a program's output by the oracles beside it.
pub(super) fn check_java(folder: &Path, name: &str, answer: &[u8]) -> anyhow::Result<()> {
    let oracles: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("oracles.json"))?)?;
    let right = oracles[name]["sha256"].as_str();
    let right = right.with_context(|| format!("oracles.json has nothing of {name}"))?;
    let digest: String = Sha256::digest(answer).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(digest == right, "a wrong answer, its digest {digest} is not {right}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_wasm() {
        for sample in SAMPLES {
            assert!(sample.code().unwrap().starts_with(b"\0asm"), "{}", sample.name);
        }
    }

    #[test]
    fn a_java_program_is_judged_by_all_that_it_prints() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../functions/java-faas");
        assert!(check_java(&folder, "hello", b"hello, world!\n").is_ok());
        let why = |name: &str, answer: &[u8]| check_java(&folder, name, answer).unwrap_err().to_string();
        // Of the same length.
        assert!(why("hello", b"hello, flint!\n").starts_with("a wrong answer, its digest "));
        assert_eq!(why("nosuch", b""), "oracles.json has nothing of nosuch");
        let oracles = std::fs::read_to_string(folder.join("oracles.json")).unwrap();
        for (name, _) in JAVA {
            assert!(oracles.contains(&format!("\"{name}\": ")), "{name}");
        }
    }
}
