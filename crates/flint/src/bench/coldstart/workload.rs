//! The functions that are called, with their expected results.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use flint_lab::HttpRequest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{bench::caller::post, failure::Failure};

const EMPTY_NODE: &str = "exports.main = () => ({});\n";
const EMPTY_PYTHON: &str = "def main(params):\n    return {}\n";
const FACT_NODE: &str = include_str!("../../../../../functions/faasdom/fact/index.js");
const FACT_PYTHON: &str = include_str!("../../../../../functions/faasdom/fact/__main__.py");
const MATRIX_NODE: &str = include_str!("../../../../../functions/faasdom/matrix-mult/index.js");
const MATRIX_PYTHON: &str = include_str!("../../../../../functions/faasdom/matrix-mult/__main__.py");
const DISK_NODE: &str = include_str!("../../../../../functions/faasdom/diskio/index.js");
const DISK_PYTHON: &str = include_str!("../../../../../functions/faasdom/diskio/__main__.py");

/// The runtime of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Node,
    Python,
    /// Python with numba: annotated by Flint if it is forked, decorated by hand otherwise.
    Numba,
}

/// The source of a function's code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// One file.
    Text(&'static str),
    /// A folder of `functions/samples`, which has to be built.
    Sample(&'static str),
}

/// Verifies a response.
pub(super) type Check = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// A function and a call of it.
#[derive(Clone)]
pub(super) struct Workload {
    /// Its name in the report.
    pub(super) name: &'static str,
    pub(super) language: Language,
    pub(super) source: Source,
    /// The function in the source that numba compiles.
    pub(super) kernel: &'static str,
    /// The body of each call, and of the warm-up event.
    pub(super) body: Vec<u8>,
    pub(super) content_type: &'static str,
    /// Calls per round after the one that follows a rest: fewer if each takes long.
    pub(super) calls: usize,
    pub(super) check: Check,
}

impl Workload {
    /// A request that calls it as `function`.
    pub(super) fn request(&self, server: SocketAddr, function: &str) -> HttpRequest {
        post(server, function, self.content_type, &self.body)
    }

    pub(super) fn verify(&self, body: &[u8]) -> Result<(), String> {
        if (self.check)(body) { Ok(()) } else { Err("not what it has to be".into()) }
    }
}

/// The sizes of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) fact: u64,
    pub(super) matrix: u64,
    pub(super) files: u64,
    pub(super) calls_of_empty: usize,
    pub(super) calls: usize,
}

impl Sizes {
    /// Those of FaaSdom's web page.
    pub(super) const FULL: Self =
        Self { fact: 88_834_647_444_046, matrix: 100, files: 1000, calls_of_empty: 13, calls: 2 };
    pub(super) const QUICK: Self =
        Self { fact: 88_834_647, matrix: 20, files: 20, calls_of_empty: 5, calls: 2 };

    /// Parses `--set sizes=`.
    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        match name {
            "full" => Ok(Self::FULL),
            "quick" => Ok(Self::QUICK),
            other => Err(Failure::usage(format!("--set sizes={other}: it is full or quick"))),
        }
    }
}

const FILE_BYTES: usize = 10_240;
const SEED: u64 = 7;
/// Default longest side of a thumbnail.
const THUMBNAIL: u32 = 128;
/// Below the 1 MiB limit of warm-up events, and well above what a thumbnail needs.
const PHOTO: &str = "camera.png";

/// All workloads. `samples` is the folder of the sample functions, if there is one.
pub(super) fn all(sizes: Sizes, samples: Option<&Path>) -> Vec<Workload> {
    let Sizes { fact, matrix, files, calls_of_empty, calls } = sizes;
    let json = |name, language, source, kernel, arguments: Value, calls, answer: Value| Workload {
        name,
        language,
        source: Source::Text(source),
        kernel,
        body: arguments.to_string().into_bytes(),
        content_type: "application/json",
        calls,
        check: Arc::new(move |body| serde_json::from_slice::<Value>(body).is_ok_and(|body| body == answer)),
    };
    let empty =
        |name, language, source| json(name, language, source, "", json!({}), calls_of_empty, json!({}));
    let factors = json!({ "factors": factors(fact) });
    let fact = |name, language, source| {
        json(name, language, source, "factors", json!({ "n": fact }), calls, factors.clone())
    };
    let total = json!({ "total": total_of_product(matrix, SEED) });
    let matrix = |name, language, source| {
        let arguments = json!({ "n": matrix, "seed": SEED });
        json(name, language, source, "total_of_product", arguments, calls, total.clone())
    };
    let read_back = json!({ "files": files, "digest": digest_of_files(files, FILE_BYTES, SEED) });
    let disk = |name, language, source| {
        let arguments = json!({ "n": files, "size": FILE_BYTES, "seed": SEED });
        json(name, language, source, "", arguments, calls, read_back.clone())
    };
    let mut workloads = vec![
        empty("empty-node", Language::Node, EMPTY_NODE),
        empty("empty-python", Language::Python, EMPTY_PYTHON),
        fact("fact-node", Language::Node, FACT_NODE),
        fact("fact-python", Language::Python, FACT_PYTHON),
        fact("fact-numba", Language::Numba, FACT_PYTHON),
        matrix("matrix-mult-node", Language::Node, MATRIX_NODE),
        matrix("matrix-mult-python", Language::Python, MATRIX_PYTHON),
        matrix("matrix-mult-numba", Language::Numba, MATRIX_PYTHON),
        disk("diskio-node", Language::Node, DISK_NODE),
        disk("diskio-python", Language::Python, DISK_PYTHON),
    ];
    // Without the folder they are listed all the same, so that their arms can report what is missing.
    let photo =
        samples.and_then(|folder| std::fs::read(folder.join("photos").join(PHOTO)).ok()).unwrap_or_default();
    for (name, language, sample) in
        [("resize-node", Language::Node, "resize-node"), ("resize-python", Language::Python, "resize-python")]
    {
        workloads.push(Workload {
            name,
            language,
            source: Source::Sample(sample),
            kernel: "",
            body: photo.clone(),
            content_type: "image/png",
            calls,
            check: Arc::new(|body| png_size(body).is_some_and(|(w, h)| w.max(h) == THUMBNAIL)),
        });
    }
    workloads
}

/// The sample functions, if run within Flint's repository.
pub(super) fn samples() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("functions/samples")).find(|folder| folder.is_dir())
}

/// The divisors of `n` in ascending order: the small ones upwards, then their counterparts.
fn factors(n: u64) -> Vec<u64> {
    let small: Vec<u64> = (1..).take_while(|i| i * i <= n).filter(|i| n.is_multiple_of(*i)).collect();
    let large = small.iter().rev().filter(|i| *i * *i != n).map(|i| n / i);
    small.iter().copied().chain(large).collect()
}

/// The sum of all cells of A × B is the sum over k of (column k of A) × (row k of B), so the product need not
/// be computed.
fn total_of_product(n: u64, seed: u64) -> u64 {
    let mut state = seed;
    let mut cell = move || {
        state = state * 16_807 % 2_147_483_647;
        state % 100
    };
    let mut columns_of_a = vec![0; n as usize];
    for _ in 0..n {
        columns_of_a.iter_mut().for_each(|sum| *sum += cell());
    }
    columns_of_a.into_iter().map(|column| column * (0..n).map(|_| cell()).sum::<u64>()).sum()
}

/// Width and height from a PNG's first chunk.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let field = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    (bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((field(16)?, field(20)?))
}

/// SHA-256 of the files that diskio reads back, in order.
fn digest_of_files(files: u64, bytes: usize, seed: u64) -> String {
    let mut digest = Sha256::new();
    for file in 0..files {
        let mark = (seed * 1_000_003 + file) % (1 << 32);
        digest.update(format!("{mark:08x}{}", "A".repeat(bytes - 8)));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracles_agree_with_what_is_known_of_the_original() {
        let divisors = factors(Sizes::FULL.fact);
        assert_eq!((divisors.len(), &divisors[..3], divisors[47]), (48, &[1, 2, 7][..], Sizes::FULL.fact));
        assert_eq!(factors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        // As computed by the Node.js and Python functions, cell by cell.
        assert_eq!(total_of_product(100, 7), 2_408_727_532);
        assert_eq!(total_of_product(0, 7), 0);
    }

    #[test]
    fn an_answer_that_is_not_the_functions_is_wrong() {
        let workloads = all(Sizes::QUICK, None);
        let named = |name| workloads.iter().find(|workload| workload.name == name).unwrap();
        assert!((named("empty-node").check)(b"{ }") && !(named("empty-node").check)(b"null"));
        let digest = digest_of_files(20, FILE_BYTES, SEED);
        let answer = json!({ "files": 20, "digest": digest }).to_string();
        assert!((named("diskio-python").check)(answer.as_bytes()));
        // From diskio's bench.json, computed by a Python program.
        assert_eq!(
            digest_of_files(20, 1024, 7),
            "f4df9cc46b213c691ded25ced3174196a68d27bd4fc0139dead0411bae4848da"
        );
        // A function that only repeats its input has read nothing.
        assert!(!(named("diskio-python").check)(br#"{"files":20}"#));
        let png =
            |w: u8| [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0".as_slice(), &[w], &[0, 0, 0, 100]].concat();
        assert!((named("resize-node").check)(&png(128)) && !(named("resize-node").check)(&png(129)));
        assert!(!(named("resize-node").check)(b"{}"));
    }
}
