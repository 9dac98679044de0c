const { shape } = require('./shape.js');

exports.main = () => ({ shape });
