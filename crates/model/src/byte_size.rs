//! Sizes in bytes, so that a bare number never has to be guessed at.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A number of bytes. `B`, `KB`, `MB` and `GB` are powers of 1024, as in OpenWhisk and `docker run --memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

/// Why a text is not a size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a size: write a whole number with an optional unit B, KB, MB or GB, for example '256MB'"
)]
pub struct ByteSizeError(String);

const KIB: u64 = 1024;

impl ByteSize {
    /// `n` bytes.
    pub const fn bytes(n: u64) -> Self {
        Self(n)
    }

    /// `n` × 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n * KIB)
    }

    /// `n` × 1024² bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n * KIB * KIB)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Whole mebibytes, rounded down.
    pub const fn as_mib(self) -> u64 {
        self.0 / (KIB * KIB)
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ByteSizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let factor = match unit.trim().to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => KIB,
            "M" | "MB" | "MIB" => KIB * KIB,
            "G" | "GB" | "GIB" => KIB * KIB * KIB,
            _ => return Err(wrong()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0, "B");
        for larger in ["KB", "MB", "GB"] {
            if value < KIB || value % KIB != 0 {
                break;
            }
            (value, unit) = (value / KIB, larger);
        }
        write!(f, "{value} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_with_units() {
        assert_eq!("256MB".parse(), Ok(ByteSize::mib(256)));
        assert_eq!("1 kb".parse(), Ok(ByteSize::kib(1)));
        assert_eq!("17".parse(), Ok(ByteSize::bytes(17)));
        assert_eq!(ByteSize::mib(256).to_string(), "256 MB");
        assert_eq!(ByteSize::bytes(1500).to_string(), "1500 B");
        for bad in ["", "MB", "1.5MB", "-1", "3 parsecs", "99999999999GB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}
