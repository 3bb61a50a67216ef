/** @platformatic/kafka: pure JavaScript; its consumers always belong to a group and are read as Node.js streams. */
import { installedVersion } from '../versions.js';
import { PlatformaticAdmin } from './admin.js';
import { PlatformaticConsumer } from './consumer.js';
import { describeError } from './errors.js';
import { PlatformaticProducer } from './producer.js';

export const client = {
  version: installedVersion('@platformatic/kafka'),
  Producer: PlatformaticProducer,
  Consumer: PlatformaticConsumer,
  Admin: PlatformaticAdmin,
  describeError,
};
