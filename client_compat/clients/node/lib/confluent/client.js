/** @confluentinc/kafka-javascript: librdkafka behind a native addon. */
import { installedVersion } from '../versions.js';
import { ConfluentAdmin } from './admin.js';
import { ConfluentConsumer } from './consumer.js';
import { describeError } from './errors.js';
import { librdkafkaVersion } from './library.js';
import { ConfluentProducer } from './producer.js';

export const client = {
  version: `${installedVersion('@confluentinc/kafka-javascript')} (librdkafka ${librdkafkaVersion})`,
  Producer: ConfluentProducer,
  Consumer: ConfluentConsumer,
  Admin: ConfluentAdmin,
  describeError,
};
