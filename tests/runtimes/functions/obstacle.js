// A timer that runs cannot be copied.
setInterval(() => {}, 1000);
exports.main = () => ({ fine: true });
