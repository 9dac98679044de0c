//! The version of WASI that code is made for. Version 0.3 has an engine of its own, made only if the operator
//! has enabled it.

use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

use crate::cache::Shape;

/// The versions of WASI that need different engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wasi {
    /// Preview 1 and 0.2: everything except components for 0.3.
    V0_2,
    /// Components whose functions are async tasks, of which an instance may run several.
    V0_3,
}

const HANDLER_0_2: &str = "wasi:http/incoming-handler@0.2";
const HANDLER_0_3: &str = "wasi:http/handler@0.3";

impl Wasi {
    /// Decided by the handler that a component exports. One that exports both runs as 0.2, which gets
    /// security patches.
    pub(crate) fn of(code: &[u8], shape: Shape) -> Self {
        if shape == Shape::Module {
            return Self::V0_2;
        }
        let (mut depth, mut found) = (0_u32, Self::V0_2);
        for payload in Parser::new(0).parse_all(code) {
            match payload {
                Ok(Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) => depth += 1,
                Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
                Ok(Payload::ComponentExportSection(exports)) if depth == 0 => {
                    for export in exports.into_iter().flatten() {
                        let name = export.name.name;
                        if name.starts_with(HANDLER_0_2) {
                            return Self::V0_2;
                        }
                        if name.starts_with(HANDLER_0_3) {
                            found = Self::V0_3;
                        }
                    }
                }
                // The compiler will refuse invalid code, with the reason.
                Err(_) => break,
                Ok(_) => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_handler_goes_first() {
        let of = |exports: &[&str]| {
            let exports: String =
                exports.iter().map(|name| format!(r#"(export "{name}" (instance $i))"#)).collect();
            let text = format!("(component (component $c) (instance $i (instantiate $c)) {exports})");
            Wasi::of(&wat::parse_str(text).unwrap(), Shape::Component)
        };
        assert_eq!(of(&["wasi:http/handler@0.3.0"]), Wasi::V0_3);
        assert_eq!(of(&["wasi:http/handler@0.3.2", "wasi:http/incoming-handler@0.2.3"]), Wasi::V0_2);
        assert_eq!(of(&["wasi:cli/run@0.2.0"]), Wasi::V0_2);
        assert_eq!(Wasi::of(b"garbage", Shape::Component), Wasi::V0_2);
    }
}
