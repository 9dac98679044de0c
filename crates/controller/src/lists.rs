//! Size limits of lists.

use flint_model::ByteSize;

/// JSON size up to which a list is read without reserving memory.
pub const SMALL_LIST: ByteSize = ByteSize::mib(1);
/// Maximum JSON size of a list. In memory its entities take several times that, so a larger one than
/// [`SMALL_LIST`] needs a reservation first.
pub const LARGEST_LIST: ByteSize = ByteSize::mib(8);
