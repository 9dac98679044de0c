// Greets whoever it is told of.
function main(params) {
  console.log('params:', params);
  const { name = params.payload ?? 'stranger', place = 'somewhere' } = params;
  return { payload: `Hello, ${name} from ${place}!` };
}

module.exports = { main };
