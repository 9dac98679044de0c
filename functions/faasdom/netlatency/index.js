exports.main = () => ({ success: true, payload: { test: 'latency test' } });
