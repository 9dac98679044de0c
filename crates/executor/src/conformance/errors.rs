//! Rule 5: a refusal names its cause.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::{CodeFormat, Function};

use super::Subject;
use crate::{FunctionSource, PrepareError};

async fn refusal(subject: &Subject, code: &[u8], adjust: impl FnOnce(&mut Function)) -> PrepareError {
    let source = subject.laboratory();
    let mut function = (*source.function).clone();
    adjust(&mut function);
    let source = FunctionSource { function: Arc::new(function), code: Bytes::copy_from_slice(code) };
    subject.executor.prepare(source, &|_| {}).await.expect_err("it is refused")
}

/// A runtime that does not exist, or not in this version: the refusal names those that do.
pub async fn a_refused_kind_names_the_cause(subject: &Subject) {
    for kind in ["cobol:85".to_owned(), format!("{}:999", subject.kind.family())] {
        let error = refusal(subject, b"x", |function| function.kind = kind.parse().expect("a kind")).await;
        let text = error.to_string();
        assert!(matches!(error, PrepareError::Unavailable { .. }), "{text}");
        assert!(text.contains(&kind) && text.contains(subject.kind.family()), "{text}");
    }
}

/// Code that is not in its declared format.
pub async fn refused_code_names_the_cause(subject: &Subject) {
    let cases: [(CodeFormat, &[u8], &str); 4] = [
        (CodeFormat::Zip, b"no zip", "zip"),
        (CodeFormat::TarGz, b"no tar", "tar"),
        (CodeFormat::Source, b"\xff\xfe", "UTF-8"),
        (CodeFormat::Source, b"", "empty"),
    ];
    for (format, code, cause) in cases {
        let error = refusal(subject, code, |function| {
            function.code.format = format;
            // A digest that no other code has.
            function.code.digest = flint_model::Digest::from_bytes([format as u8 + code.len() as u8; 32]);
        });
        let error = error.await;
        assert!(matches!(&error, PrepareError::Code(text) if text.contains(cause)), "{format:?}: {error}");
    }
}
