export const imported = 'when asked for';
