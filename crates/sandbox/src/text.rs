//! The kernel's limits on a program's arguments and environment.

/// The longest string, without its NUL (`MAX_ARG_STRLEN` includes it).
const STRING_MAX: usize = 128 * 1024 - 1;
/// All strings together, each with its NUL and a pointer. Linux allows a quarter of the stack limit, 2 MiB of
/// the usual 8; the rest is for what the sandbox adds.
pub(crate) const TEXT_MAX: usize = 1536 * 1024;
const POINTER: usize = 8;

/// Checks that a program can be given these arguments and variables, and `beside` further bytes.
///
/// # Errors
/// What is too long, with figures, for the caller's user.
pub fn check_text<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    env: impl IntoIterator<Item = (&'a str, &'a str)>,
    beside: usize,
) -> Result<(), String> {
    let mut together = beside;
    let mut add = |length: usize| {
        together += length + 1 + POINTER;
        length <= STRING_MAX
    };
    for argument in arguments {
        if !add(argument.len()) {
            return Err(format!(
                "an argument has {} bytes, and a program can be given {STRING_MAX} in one: pass it in the body, which programs read from their input",
                argument.len()
            ));
        }
    }
    for (name, value) in env {
        let length = name.len() + 1 + value.len();
        if !add(length) {
            return Err(format!(
                "the environment variable {name} has {length} bytes with its name, and a program can be given {STRING_MAX} in one: shorten the parameter, secret or header that it comes from"
            ));
        }
    }
    if together > TEXT_MAX {
        return Err(format!(
            "arguments and environment variables have {together} bytes together, and a program can be given {TEXT_MAX}: shorten the parameters, secrets or headers that they come from"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_takes_is_taken_and_the_rest_is_named() {
        let check = |argument: usize, value: usize, count: usize| {
            let (argument, value) = ("x".repeat(argument), "x".repeat(value));
            let env = std::iter::repeat_n(("TOKEN", &*value), count);
            check_text([&*argument], env, 0).err()
        };
        assert_eq!(check(STRING_MAX, STRING_MAX - 6, 1), None);
        assert!(check(STRING_MAX + 1, 0, 0).unwrap().contains("an argument has 131072 bytes"));
        let variable = check(0, STRING_MAX - 5, 1).unwrap();
        assert!(variable.contains("variable TOKEN has 131072 bytes"), "{variable}");
        assert_eq!(check(0, 65536, 23), None);
        assert!(check(0, 65536, 24).unwrap().contains("1573"), "{:?}", check(0, 65536, 24));
        assert!(check_text([], [], TEXT_MAX + 1).is_err());
    }
}
