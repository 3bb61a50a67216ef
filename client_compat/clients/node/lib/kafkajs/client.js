/** kafkajs: pure JavaScript; its consumers always belong to a group and are pushed to. */
import kafkajs from 'kafkajs';

import { installedVersion } from '../versions.js';
import { KafkaJSAdmin } from './admin.js';
import { registerCodecs } from './codecs.js';
import { KafkaJSConsumer } from './consumer.js';
import { describeError } from './errors.js';
import { KafkaJSProducer } from './producer.js';

registerCodecs(kafkajs.CompressionCodecs, kafkajs.CompressionTypes);
// The warning about 2.0's change of partitioner is for those who come from 1.x.
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1';

export const client = {
  version: installedVersion('kafkajs'),
  Producer: KafkaJSProducer,
  Consumer: KafkaJSConsumer,
  Admin: KafkaJSAdmin,
  describeError,
};
