/* Everything that a generated variant may call. */
#ifndef COLLFORGE_VARIANT_H_INCLUDED
#define COLLFORGE_VARIANT_H_INCLUDED

#include "chunks/chunks.h"
#include "data/component.h"
#include "data/facts.h"
#include "data/operands.h"
#include "data/pairs.h"
#include "data/shuffle.h"
#include "lane/lane.h"
#include "node/shared.h"
#include "place/connect.h"
#include "place/layout.h"

#endif
