'use strict';

// Makes a thumbnail of the JPEG or PNG picture in the request body.
//
//   request   the picture; query `max` = longest side of the thumbnail in pixels (default 128)
//   response  the thumbnail, in the format of the picture; never larger than the picture

const { codecFor } = require('./codecs');
const { areaAverage } = require('./resample');

const DEFAULT_MAX = 128;

function main({ body, query, max }) {
  const codec = codecFor(body);
  if (!codec) return refuse('the request body is neither a JPEG nor a PNG picture');
  const longest = Number(new URLSearchParams(query ?? '').get('max') ?? max ?? DEFAULT_MAX);
  if (!Number.isInteger(longest) || longest < 1) return refuse('max must be a whole number of pixels, 1 or more');

  const picture = codec.decode(body);
  const { width, height } = fit(picture, longest);
  const thumbnail = areaAverage(picture, width, height);
  return new Response(codec.encode(thumbnail), { headers: { 'content-type': codec.contentType } });
}

/** The size of `picture` when its longest side is at most `longest`, its shape kept. */
function fit({ width, height }, longest) {
  const scale = Math.min(1, longest / Math.max(width, height));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

function refuse(reason) {
  return Response.json({ error: reason }, { status: 400 });
}

module.exports = { main };
