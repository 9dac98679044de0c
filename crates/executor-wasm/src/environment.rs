//! A guest's environment, beyond the variables that it was granted.

use flint_executor::Call;

/// Names and values.
pub(crate) type Variables = Vec<(String, String)>;

/// Makes the environment from the start's variables and a call.
pub(crate) type Tell = fn(&[(String, String)], &Call) -> Variables;

/// The start's variables and the activation's.
pub(crate) fn of(start: &[(String, String)], call: &Call) -> Variables {
    [start, &call.variables()].concat()
}

/// Those of [`of`] and the request's.
pub(crate) fn with_request(start: &[(String, String)], call: &Call) -> Variables {
    let mut variables = of(start, call);
    // Programs read them as C strings.
    variables.retain(|(_, value)| !value.contains('\0'));
    variables.extend(call.request_variables());
    variables
}
