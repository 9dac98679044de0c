exports.shape = 'round';
