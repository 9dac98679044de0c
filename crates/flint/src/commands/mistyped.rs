//! Tells what may be a mistyped activation ID, where a command takes a function's name or an ID.

use crate::failure::Failure;

/// Names with fewer hex digits and nothing else are names: `add`, `f`.
const FEWEST: usize = 8;

/// The failure for a function that is not there, whose name may have been meant as an activation ID.
pub(super) fn perhaps_an_id(failure: Failure, name: &str) -> Failure {
    let is_hex = name.len() >= FEWEST && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if failure.code != "not_found" || !is_hex {
        return failure;
    }
    let message = format!("{}, and an activation ID has 32 hex digits, not {}", failure.message, name.len());
    Failure { message, ..failure }.hint("`flint activations` lists activations, `flint list` functions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_name_of_hex_digits_may_be_a_part_of_an_id() {
        let said = |code: &str, name: &str| {
            let failure = Failure::new(Exit::Refused, code, "no function").hint("its own");
            let failure = perhaps_an_id(failure, name);
            (failure.message, failure.hint.unwrap())
        };
        let (message, hint) = said("not_found", "01A1fd48");
        assert_eq!(message, "no function, and an activation ID has 32 hex digits, not 8");
        assert!(hint.contains("flint activations"), "{hint}");
        let others = [
            ("not_found", "add"),
            ("not_found", "01a1fd4g"),
            ("not_found", "dead/beef"),
            ("throttled", "01a1fd48"),
        ];
        for (code, name) in others {
            assert_eq!(said(code, name), ("no function".to_owned(), "its own".to_owned()), "{name}");
        }
    }
}
