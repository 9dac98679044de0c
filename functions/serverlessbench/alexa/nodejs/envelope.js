'use strict';

// The request that a skill gets, of the shape and size of Alexa's own (some 5 kB): session, context with the device and its
// screens, and the intent.

const TOKEN = 'eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.'.repeat(24);
const SCREENS = ['HUB', 'TV', 'MOBILE'].map((mode, index) => ({
  type: 'APL',
  id: `screen-${index}`,
  shape: 'RECTANGLE',
  mode,
  dpi: 160,
  presentationType: 'STANDARD',
  canRotate: mode === 'MOBILE',
  configuration: { current: { mode, video: { codecs: ['H_264_42', 'H_264_41'] }, size: { type: 'DISCRETE', pixelWidth: 1280, pixelHeight: 800 } } },
  experiences: [{ arcMinuteWidth: 246, arcMinuteHeight: 144, canRotate: false, canResize: false }],
}));

function envelope(skill, intent) {
  const application = { applicationId: `amzn1.ask.skill.${skill}` };
  const user = { userId: `amzn1.ask.account.${'A'.repeat(160)}` };
  const id = `amzn1.echo-api.request.${skill}`;
  return {
    version: '1.0',
    session: { new: true, sessionId: `amzn1.echo-api.session.${skill}`, application, user, attributes: {} },
    context: {
      Viewports: SCREENS,
      System: {
        application,
        user,
        device: { deviceId: `amzn1.ask.device.${'B'.repeat(160)}`, supportedInterfaces: { AudioPlayer: {}, 'Alexa.Presentation.APL': { runtime: { maxVersion: '1.4' } } } },
        apiEndpoint: 'https://api.amazonalexa.com',
        apiAccessToken: TOKEN,
      },
    },
    request: intent
      ? { type: 'IntentRequest', requestId: id, locale: 'en-US', intent: { ...intent, confirmationStatus: 'NONE' } }
      : { type: 'LaunchRequest', requestId: id, locale: 'en-US', shouldLinkResultBeReturned: false },
  };
}

module.exports = { envelope };
