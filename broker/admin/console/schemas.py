"""Schemas for decoding topics' keys and values: storage, upload and removal.

Schemas are kept in memory, limited in number and length, and are lost when the broker stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from ottla.broker.admin.console.avro_schema import AvroSchema, SchemaRefused
from ottla.broker.admin.console.protobuf_schema import ProtobufIn, ProtobufSchema

SCHEMAS_MAX: Final = 100
TEXT_MAX: Final = 64 << 10

Part = Literal["key", "value"]
AnySchema = AvroSchema | ProtobufSchema


class SchemaIn(BaseModel):
    """A schema to upload: either an Avro or a Protobuf schema."""

    model_config = ConfigDict(extra="forbid")

    avro: Annotated[str | None, Field(max_length=TEXT_MAX, description="an Avro schema, as its JSON")] = None
    protobuf: ProtobufIn | None = None


class SchemaView(BaseModel):
    """An uploaded schema, as the console lists it."""

    topic: str
    part: Part
    kind: Literal["Avro", "Protobuf"]
    text: str = Field(description="the Avro schema, or the name of the Protobuf message")


class Schemas:
    """The uploaded schemas, by topic and part (key or value)."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, Part], AnySchema] = {}

    def of(self, topic: str, part: Part) -> AnySchema | None:
        """Return the uploaded schema of a topic's keys or values, None if there is none."""
        return self._schemas.get((topic, part))

    def put(self, topic: str, part: Part, schema: AnySchema) -> None:
        """Store a schema for a topic's keys or values. Raises SchemaRefused if there are too many schemas."""
        if len(self._schemas) >= SCHEMAS_MAX and (topic, part) not in self._schemas:
            raise SchemaRefused(f"{SCHEMAS_MAX} schemas are stored already, which is the maximum: delete one first")
        self._schemas[topic, part] = schema

    def delete(self, topic: str, part: Part) -> bool:
        """Delete the schema of a topic's keys or values; return whether there was one."""
        return self._schemas.pop((topic, part), None) is not None

    def __iter__(self) -> Iterator[SchemaView]:
        for (topic, part), schema in sorted(self._schemas.items(), key=lambda each: each[0]):
            yield SchemaView(topic=topic, part=part, kind="Avro" if isinstance(schema, AvroSchema) else "Protobuf", text=schema.text)


def schemas_router(schemas: Schemas) -> APIRouter:
    """Return the HTTP routes to upload, list and delete the console's schemas."""
    router = APIRouter()

    @router.get("/schemas")
    async def list_schemas() -> list[SchemaView]:
        """All uploaded schemas."""
        return list(schemas)

    @router.put("/schemas", status_code=204)
    async def put_schema(topic: Annotated[str, Query(max_length=249)], body: SchemaIn, part: Part = "value") -> None:
        """Upload a schema: the console decodes the topic's keys or values with it, until the broker stops. 422 for an invalid schema, 501
        if the package that decodes it is not installed."""
        try:
            schemas.put(topic, part, _parsed(body))
        except SchemaRefused as error:
            raise HTTPException(422, str(error)) from error
        except ImportError as error:
            raise HTTPException(501, f"decoding needs a package of the extra 'schemas': pip install 'ottla[schemas]' ({error})") from error

    @router.delete("/schemas", status_code=204)
    async def delete_schema(topic: str, part: Part = "value") -> None:
        """Delete a schema; 404 if there is none for these keys or values."""
        if not schemas.delete(topic, part):
            raise HTTPException(404, f"no schema was given for the {part}s of {topic!r}")

    return router


def _parsed(uploaded: SchemaIn) -> AnySchema:
    if uploaded.avro is not None and uploaded.protobuf is None:
        return AvroSchema.of(uploaded.avro)
    if uploaded.protobuf is not None and uploaded.avro is None:
        return ProtobufSchema.of(uploaded.protobuf)
    raise SchemaRefused("exactly one schema is expected: avro or protobuf")
