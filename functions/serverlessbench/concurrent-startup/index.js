exports.main = ({ name }) => ({ greeting: `Hello, ${name}!` });
