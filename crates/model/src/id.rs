//! Identifiers of activations and instances.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::{ContextV7, Uuid};

thread_local! {
    static CONTEXT: ContextV7 = const { ContextV7::new() };
}

/// An activation's id: a UUIDv7 as 32 lower-case hex digits, so that records written in time order are in key order.
/// Any 32 hex digits are accepted from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActivationId(u128);

/// Why a text is not an activation id. The texts are those of the OpenWhisk API.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ActivationIdError {
    /// Not 32 characters.
    #[error("Activation id length is {0} but must be 32.")]
    Length(usize),
    /// 32 characters, but not all of them hex digits.
    #[error("The activation id is not valid.")]
    Digits,
}

impl ActivationId {
    /// A new id, greater than every id this process made before in an earlier millisecond.
    pub fn generate() -> Self {
        // The library's own context is behind one lock, at which the threads of a busy server would meet for every call.
        let id = CONTEXT.with(|context| Uuid::new_v7(uuid::Timestamp::now(context)));
        Self(id.as_u128())
    }

    /// The id as a number; its order is the order of creation.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// From a number that [`Self::as_u128`] gave.
    pub const fn from_u128(number: u128) -> Self {
        Self(number)
    }
}

impl FromStr for ActivationId {
    type Err = ActivationIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = text.chars().count();
        if length != 32 {
            return Err(ActivationIdError::Length(length));
        }
        // `from_str_radix` alone would accept a leading '+'.
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ActivationIdError::Digits);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ActivationIdError::Digits)
    }
}

impl TryFrom<String> for ActivationId {
    type Error = ActivationIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ActivationId> for String {
    fn from(id: ActivationId) -> Self {
        id.to_string()
    }
}

/// The 32 hex digits of a number: formatted for every call more than once, and the library's way takes several times as long.
pub fn hex(number: u128) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (two, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        two[0] = DIGITS[usize::from(byte >> 4)];
        two[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}

impl fmt::Display for ActivationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex(self.0);
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for ActivationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An instance of a function, unique within one server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub u64);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_hex_digits_in_order_of_creation() {
        let first = ActivationId::generate();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = ActivationId::generate();
        assert!(first < second && first.to_string() < second.to_string());
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_eq!("abc".parse::<ActivationId>(), Err(ActivationIdError::Length(3)));
        assert_eq!(format!("+{}", "0".repeat(31)).parse::<ActivationId>(), Err(ActivationIdError::Digits));
        assert_eq!("z".repeat(32).parse::<ActivationId>(), Err(ActivationIdError::Digits));
    }
}
